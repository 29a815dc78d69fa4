"""A step settles once, over every implementation of the journal."""

from tests.conformance.runtime.other_implementations import *  # noqa: F403
from tests.conformance.test_steps import *  # noqa: F403
