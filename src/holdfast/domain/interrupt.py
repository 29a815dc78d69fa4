"""An interrupt: a durable request of a run for a response, which is accepted once.

A run that waits for children also shows their open interrupts; it keeps them in one of its values.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import AlreadyAnswered, Invalid
from holdfast.domain.events.messages import AgUiInterrupt
from holdfast.domain.ids import InterruptId, MessageId, RunId, ThreadId, ToolCallId
from holdfast.domain.instant import Instant, Millis

DEFAULT_INTERRUPT_TIMEOUT_MS: Final = Millis(7 * 24 * 3600 * 1000)


class InterruptKind(StrEnum):
    """Kind of an interrupt."""

    APPROVAL = "approval"
    INPUT = "input"
    CLIENT_TOOL = "client_tool"


class InterruptStatus(StrEnum):
    """Status of an interrupt."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Interrupt(msgspec.Struct, frozen=True, kw_only=True):
    """One interrupt. `digest` binds an approval to the exact arguments that were shown."""

    id: InterruptId
    run_id: RunId
    thread_id: ThreadId
    title: str | None = None
    """Of the thread."""
    agent_type: str = ""
    root_run_id: RunId
    kind: InterruptKind
    status: InterruptStatus
    message: str | None
    tool_call_id: ToolCallId | None
    arguments: Json
    digest: str | None
    response_schema: dict[str, Json] | None
    default: Json
    """The response if none arrives before `expires_at`."""
    metadata: dict[str, Json]
    response: Json
    answered_by: str | None
    answered_at: Instant | None
    expires_at: Instant
    created_at: Instant


class InterruptFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for listing interrupts; unset fields match every interrupt."""

    kind: InterruptKind | None = None
    agent_type: str | None = None
    thread_id: ThreadId | None = None
    run_id: RunId | None = None


class NewInterrupt(msgspec.Struct, frozen=True, kw_only=True):
    """An interrupt to open."""

    kind: InterruptKind
    id: InterruptId | None = None
    message: str | None = None
    tool_call_id: ToolCallId | None = None
    arguments: Json = None
    digest: str | None = None
    response_schema: dict[str, Json] | None = None
    default: Json = None
    metadata: dict[str, Json] = {}
    expires_at: Instant | None = None


class InterruptResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response to an interrupt. An approval carries the digest of the approved arguments."""

    response: Json
    digest: str | None = None
    by: str | None = None
    message_id: MessageId | None = None
    """The id that a client gave the result of its tool; the message of the result keeps it."""


def check_response(interrupt: Interrupt, response: InterruptResponse, *, now: Instant) -> None:
    """Raise unless `response` may settle `interrupt` now."""
    if interrupt.status is not InterruptStatus.OPEN:
        raise AlreadyAnswered(
            f"interrupt `{interrupt.id}` is {interrupt.status}",
            interrupt_id=interrupt.id,
            status=str(interrupt.status),
        )
    if interrupt.expires_at <= now:
        raise AlreadyAnswered(
            f"interrupt `{interrupt.id}` expired at {interrupt.expires_at}", interrupt_id=interrupt.id
        )
    if response.digest is None and interrupt.kind is InterruptKind.APPROVAL and interrupt.digest is not None:
        raise Invalid("an approval needs the `digest` of the interrupt: read it again", interrupt_id=interrupt.id)
    if response.digest is not None and response.digest != interrupt.digest:
        raise Invalid("`digest` is of other arguments: read the interrupt again", interrupt_id=interrupt.id)


CHILD_INTERRUPTS_VALUE: Final = "asking"


def child_interrupts(values: Mapping[str, Json]) -> dict[RunId, list[AgUiInterrupt]]:
    """Return the open interrupts of the children that a run waits for, by child."""
    stored = values.get(CHILD_INTERRUPTS_VALUE)
    return msgspec.convert(stored, dict[RunId, list[AgUiInterrupt]]) if stored else {}
