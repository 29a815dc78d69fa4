"""A run to create: its input, options and place in the thread."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.content import Json, plain_text
from holdfast.domain.cron import MAX_DELAY_SECONDS
from holdfast.domain.errors import Invalid
from holdfast.domain.idempotency import check_idempotency_key, request_digest
from holdfast.domain.ids import RunId, ThreadId, check_client_id
from holdfast.domain.instant import Instant
from holdfast.domain.limits import Limits
from holdfast.domain.message import Message, NewMessage, Role, check_input_messages
from holdfast.domain.placement import OnBusy
from holdfast.domain.run import Mode, Priority, Run, check_value_names
from holdfast.domain.thread import NewThread, check_new_thread, derive_title
from holdfast.domain.validation import check_text
from holdfast.domain.worker import check_pools

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
    output_schema: dict[str, Json] | UnsetType = UNSET
    """The JSON Schema of its output; without one, that of the agent.

    It is absent unless set, so that the digest of a request without it stays that of earlier versions.
    """
    agent_version: str | UnsetType = UNSET
    """The version of the agent to execute; set by the control plane only."""
    wait_until: Instant | None = None
    delay_seconds: float | UnsetType = UNSET
    """Seconds to wait from the creation on, instead of `wait_until`.

    It is absent unless set, so that the digest of a request without it stays that of earlier versions.
    """
    pool: str | UnsetType = UNSET
    """The pool of workers that execute it, which its agent names; without one, the default pool."""
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
    if new.pool is not UNSET:
        check_pools([new.pool])
    _check_delay(new)
    for field in ("agent_type", "model", "created_by"):
        if (value := getattr(new, field)) is not None:
            check_text(value, field=field, max_chars=256)
    if len(new.tags) > MAX_TAGS:
        raise Invalid(f"a run may have at most {MAX_TAGS} tags", field="tags")
    for tag in new.tags:
        check_text(tag, field="tags", max_chars=MAX_TAG_CHARS)


def _check_delay(new: NewRun) -> None:
    if new.delay_seconds is UNSET:
        return
    if new.wait_until is not None:
        raise Invalid("a run starts either after a delay or at a time: give one of them", field="run_at")
    if not 0 <= new.delay_seconds <= MAX_DELAY_SECONDS:
        raise Invalid(f"a delay is 0 to {MAX_DELAY_SECONDS} seconds", field="after_seconds")


def input_of(new: NewRun) -> Json:
    """Return the input of a run: by default the text of its last user message."""
    if new.input is not None:
        return new.input
    return next((text for text in map(_user_text, reversed(new.messages)) if text), None)


def title_of(messages: Iterable[NewMessage | Message], *, input: Json) -> str | None:
    """Return a title for a thread whose first run has these messages: from the first of a user, or from its input."""
    text = next((text for text in map(_user_text, messages) if text), input)
    return derive_title(text) if isinstance(text, str) else None


def _user_text(message: NewMessage | Message) -> str:
    text = plain_text(message.content) if message.role is Role.USER else ""
    return text if text.strip() else ""


def body_digest(new: NewRun) -> str:
    """Return the digest that two requests with the same idempotency key must share."""
    return request_digest(msgspec.structs.replace(new, idempotency_key=None))
