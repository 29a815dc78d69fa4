"""Names of things: unique in their space, sortable by age, with a prefix that says what they name."""

import re
from typing import Final, NewType

from holdfast.domain.errors import Invalid
from holdfast.domain.instant import Millis

SpaceId = NewType("SpaceId", str)
ThreadId = NewType("ThreadId", str)
RunId = NewType("RunId", str)
MessageId = NewType("MessageId", str)
ToolCallId = NewType("ToolCallId", str)
InterruptId = NewType("InterruptId", str)
ArtifactId = NewType("ArtifactId", str)
FileId = NewType("FileId", str)
TimerId = NewType("TimerId", str)
ApiKeyId = NewType("ApiKeyId", str)
OwnerId = NewType("OwnerId", str)
"""A process that holds leases."""

ENTROPY_BYTES: Final = 10

_CLIENT_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def sortable_id(prefix: str, *, at: Millis, entropy: bytes) -> str:
    """Make an id that sorts after every id made in an earlier millisecond."""
    return f"{prefix}_{at:012x}{entropy.hex()}"


def check_client_id(value: str, *, field: str) -> str:
    """Return `value` if a client may choose it as an id."""
    if _CLIENT_ID.fullmatch(value) is None:
        raise Invalid(f"`{field}` must be 1 to 128 letters, digits, `_` or `-`", field=field)
    return value
