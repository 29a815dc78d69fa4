"""The inbox: what reaches a run from outside. Only the lease holder reads it, and a commit names what it consumed."""

from enum import StrEnum

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.instant import Instant


class InboxKind(StrEnum):
    """What came in."""

    ANSWER = "answer"
    MESSAGE = "message"
    CHILD = "child"
    TASK = "task"
    """A task has ended that the run wanted to be told of."""
    QUESTION = "question"
    """A child waits for people, or asks something else than before."""
    TIMER = "timer"
    EDIT = "edit"


class InboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that came in, numbered 1, 2, 3 in its run."""

    number: int
    kind: InboxKind
    data: Json
    created_by: str | None
    created_at: Instant
