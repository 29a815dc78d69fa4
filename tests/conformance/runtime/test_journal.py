"""`Journal` over every implementation keeps the promises of the store's own."""

from tests.conformance.runtime.other_implementations import *  # noqa: F403
from tests.conformance.test_journal import *  # noqa: F403
