"""The frames of the socket: what a client may send, one small type each, and how they are read."""

from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.api.json_body import decode, mismatch
from holdfast.control.remote_methods.method import Method
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]


class Frame(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """Something that a client sends."""

    id: Id | None = None
    """Chosen by the client: whatever answers the frame has it too."""


class Ping(Frame, frozen=True, kw_only=True, tag="ping"):
    """Asks for a `pong`."""


class Subscribe(Frame, frozen=True, kw_only=True, tag="subscribe"):
    """Follow a task after a number of its log, or a session after a cursor."""

    task_id: Id | None = None
    session_id: Id | None = None
    after: Annotated[int, Meta(ge=0)] | str | None = None


class Unsubscribe(Frame, frozen=True, kw_only=True, tag="unsubscribe"):
    """Stop to follow."""

    task_id: Id | None = None
    session_id: Id | None = None


class Offer(Frame, frozen=True, kw_only=True, tag="offer"):
    """Offer methods, in place of all that were offered before."""

    methods: list[Method]


class Result(Frame, frozen=True, kw_only=True, tag="result"):
    """Answer a call, with its content or with an error."""

    call_id: str
    content: Json | UnsetType = UNSET
    error: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.content is UNSET) == (self.error is UNSET):
            raise ValueError("give either `content` or `error`")


Said: TypeAlias = Ping | Subscribe | Unsubscribe | Offer | Result

_ANY: Final = msgspec.json.Decoder(dict[str, Any])
_PING: Final = "ping"


def read_object(text: str) -> dict[str, Json]:
    """Return what a frame says, of whatever kind; a bare `ping` is one too."""
    if text == _PING:
        return {"type": _PING}
    try:
        found: dict[str, Json] = decode(_ANY, text.encode())
    except Invalid as exc:
        raise _about_frame(exc) from exc
    return found


def as_frame(said: dict[str, Json]) -> Said:
    """Return the frame that an object is."""
    try:
        frame: Said = msgspec.convert(said, Said)
    except msgspec.ValidationError as exc:
        raise _about_frame(mismatch(exc, said, Said)) from exc
    return frame


def id_of(said: dict[str, Json]) -> str | None:
    """Return the id of a frame, also of one that does not fit."""
    found = said.get("id")
    return found if isinstance(found, str) and 0 < len(found) <= 128 else None


class Subject(NamedTuple):
    """What a subscription is about."""

    kind: str
    """`task_id` or `session_id`."""
    id: str

    @property
    def named(self) -> dict[str, str]:
        """It, as a frame names it."""
        return {self.kind: self.id}


def subject_of(frame: Subscribe | Unsubscribe) -> Subject:
    """Return what a subscription is about."""
    given = [Subject(kind, id) for kind in ("task_id", "session_id") if (id := getattr(frame, kind)) is not None]
    if len(given) != 1:
        raise Invalid("give either `task_id` or `session_id`", field="task_id")
    return given[0]


def _about_frame(error: Invalid) -> Invalid:
    """Return what is wrong with a frame, of what would be wrong with such a body."""
    return type(error)(error.message.replace("the body", "the frame", 1), **error.details)
