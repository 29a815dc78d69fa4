"""A stream with an open segment."""

import pytest

from holdfast.domain.stream import StreamNormaliser
from tests.unit.domain.stream.stream_events import NOW, RUN, STARTED, THREAD


@pytest.fixture
def stream() -> StreamNormaliser:
    """Return a stream whose first segment is open."""
    stream_with_start = StreamNormaliser(THREAD, RUN)
    stream_with_start.feed(STARTED, at=NOW)
    return stream_with_start
