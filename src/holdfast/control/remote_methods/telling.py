"""What a client is told: frames of its socket, one small type each."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.ids import ThreadId


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """A method that a client offers, and whether calls of it go to that client: of several, they go to the newest."""

    name: str
    tool: str
    active: bool


class MethodsOffered(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="offered", omit_defaults=True):
    """What a client offers now: the answer to an offer, and told again when another client changes it."""

    id: str | None = None
    """That of the offer which it answers."""
    methods: Sequence[Offered]


class MethodCalled(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="call"):
    """An agent calls a method."""

    call_id: str
    """To answer with; another one each time that the call is made."""
    key: str
    """The same however often the call is made: an idempotency key."""
    method: str
    arguments: dict[str, Json]
    timeout_seconds: float
    agent: str
    task_id: str
    session_id: ThreadId


class CallCancelled(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="cancel"):
    """Nobody waits for the answer any more."""

    call_id: str


Telling: TypeAlias = MethodsOffered | MethodCalled | CallCancelled
