"""`Leases.expire` keeps its promises over every implementation."""

from tests.conformance.runtime.other_implementations import *  # noqa: F403
from tests.conformance.test_expiry import *  # noqa: F403
