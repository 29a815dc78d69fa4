"""Ids: unique per space, sortable by age, with a prefix for the type."""

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
ScheduleId = NewType("ScheduleId", str)
FiringId = NewType("FiringId", str)
ReminderId = NewType("ReminderId", str)
WebhookId = NewType("WebhookId", str)
DeliveryId = NewType("DeliveryId", str)
ApiKeyId = NewType("ApiKeyId", str)
GrantId = NewType("GrantId", str)
MemoryId = NewType("MemoryId", str)
EntityId = NewType("EntityId", str)
SkillId = NewType("SkillId", str)
OwnerId = NewType("OwnerId", str)
"""The id of a process that holds leases."""

ENTROPY_BYTES: Final = 10

_CLIENT_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def sortable_id(prefix: str, *, at: Millis, entropy: bytes) -> str:
    """Return an id that sorts after every id of an earlier millisecond."""
    return f"{prefix}_{at:012x}{entropy.hex()}"


def is_client_id(value: str) -> bool:
    """Return whether something may have `value` as its id."""
    return _CLIENT_ID.fullmatch(value) is not None


def check_client_id(value: str, *, field: str) -> str:
    """Return `value` if it is a valid client-chosen id."""
    if not is_client_id(value):
        raise Invalid(f"`{field}` must be 1 to 128 letters, digits, `_` or `-`", field=field)
    return value
