"""`Leases` over every implementation keep the promises of the store's own."""

from tests.conformance.runtime.other_implementations import *  # noqa: F403
from tests.conformance.test_leases import *  # noqa: F403
