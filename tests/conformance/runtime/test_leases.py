"""`Leases` as a worker has them keep every promise that the store's own keep."""

from tests.conformance.runtime.other_implementations import *  # noqa: F403
from tests.conformance.test_leases import *  # noqa: F403
