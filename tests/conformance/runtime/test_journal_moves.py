"""Moves over every implementation of the journal."""

from tests.conformance.runtime.other_implementations import *  # noqa: F403
from tests.conformance.test_journal_moves import *  # noqa: F403
