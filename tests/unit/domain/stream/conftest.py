"""A stream to say things to."""

import pytest

from holdfast.domain.stream import Stream
from tests.unit.domain.stream.said import NOW, RUN, STARTED, THREAD


@pytest.fixture
def stream() -> Stream:
    """Return a stream whose first segment is open."""
    begun = Stream(THREAD, RUN)
    begun.feed(STARTED, at=NOW)
    return begun
