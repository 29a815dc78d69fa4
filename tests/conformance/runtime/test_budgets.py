"""Budgets over every implementation of the journal."""

from tests.conformance.runtime.other_implementations import *  # noqa: F403
from tests.conformance.test_budgets import *  # noqa: F403
