"""A stream to say things to."""

import pytest

from holdfast.domain.stream import StreamNormaliser
from tests.unit.domain.stream.said import NOW, RUN, STARTED, THREAD


@pytest.fixture
def stream() -> StreamNormaliser:
    """Return a stream whose first segment is open."""
    begun = StreamNormaliser(THREAD, RUN)
    begun.feed(STARTED, at=NOW)
    return begun
