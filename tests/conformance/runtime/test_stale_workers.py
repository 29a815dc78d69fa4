"""A worker that was left behind can write nothing, however it reaches the journal."""

from tests.conformance.runtime.other_implementations import *  # noqa: F403
from tests.conformance.test_stale_workers import *  # noqa: F403
