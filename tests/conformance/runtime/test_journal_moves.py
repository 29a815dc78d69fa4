"""The moves that a worker makes are the same however it reaches the journal."""

from tests.conformance.runtime.other_implementations import *  # noqa: F403
from tests.conformance.test_journal_moves import *  # noqa: F403
