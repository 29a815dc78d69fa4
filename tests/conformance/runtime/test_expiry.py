"""`Leases.expire` keeps its promises however a worker reaches it."""

from tests.conformance.runtime.other_implementations import *  # noqa: F403
from tests.conformance.test_expiry import *  # noqa: F403
