"""A run to create: its input, options and place in the thread."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.idempotency import check_idempotency_key, request_digest
from holdfast.domain.ids import RunId, ThreadId, check_client_id
from holdfast.domain.instant import Instant
from holdfast.domain.limits import Limits
from holdfast.domain.message import NewMessage, check_input_messages
from holdfast.domain.placement import OnBusy
from holdfast.domain.run import Mode, Priority, Run, check_value_names
from holdfast.domain.thread import NewThread, check_new_thread
from holdfast.domain.validation import check_text

MAX_TAGS: Final = 50
MAX_TAG_CHARS: Final = 128


class RunBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run to continue from, at its end or after one of its messages."""

    run_id: RunId
    sequence: int | None = None


class NewRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to create, on an existing or a new thread.

    Without a `base` it continues the newest run of the thread; with `base=None` it starts a new root.
    """

    thread: ThreadId | NewThread
    messages: Sequence[NewMessage] = ()
    input: Json = None
    id: RunId | None = None
    mode: Mode = Mode.CHAT
    agent_type: str | None = None
    model: str | None = None
    base: RunBase | None | UnsetType = UNSET
    parent_run_id: RunId | None = None
    on_busy: OnBusy = OnBusy.ENQUEUE
    priority: Priority = Priority.NORMAL
    tags: list[str] = []
    limits: Limits = Limits()
    wait_until: Instant | None = None
    values: dict[str, Json] = {}
    idempotency_key: str | None = None
    created_by: str | None = None


class CreatedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run, and whether it already existed under the same idempotency key."""

    run: Run
    replayed: bool = False


def check_new_run(new: NewRun) -> None:
    """Raise if `new` is not a valid run."""
    check_input_messages(new.messages)
    if new.id is not None:
        check_client_id(new.id, field="id")
    if new.idempotency_key is not None:
        check_idempotency_key(new.idempotency_key)
    if isinstance(new.thread, NewThread):
        check_new_thread(new.thread)
        if new.base is not UNSET and new.base is not None:
            raise Invalid("a run on a new thread has no base: remove `base`", field="base")
    check_value_names(new.values)
    for field in ("agent_type", "model", "created_by"):
        if (value := getattr(new, field)) is not None:
            check_text(value, field=field, max_chars=256)
    if len(new.tags) > MAX_TAGS:
        raise Invalid(f"a run may have at most {MAX_TAGS} tags", field="tags")
    for tag in new.tags:
        check_text(tag, field="tags", max_chars=MAX_TAG_CHARS)


def body_digest(new: NewRun) -> str:
    """Return the digest that two requests with the same idempotency key must share."""
    return request_digest(msgspec.structs.replace(new, idempotency_key=None))
