"""A worker that has lost its lease can write nothing, over every implementation of the journal."""

from tests.conformance.runtime.other_implementations import *  # noqa: F403
from tests.conformance.test_stale_workers import *  # noqa: F403
