"""`Journal` as a worker has it keeps every promise that the store's own keeps."""

from tests.conformance.runtime.other_implementations import *  # noqa: F403
from tests.conformance.test_journal import *  # noqa: F403
