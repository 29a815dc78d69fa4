"""The history of a play, read from the store and normalized for comparison."""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias, TypeGuard

import msgspec
from msgspec import UNSET

from holdfast.domain.artifact import Artifact
from holdfast.domain.content import Json
from holdfast.domain.events import (
    Custom,
    Event,
    ReasoningMessageContent,
    RunFinished,
    TextMessageContent,
    ToolCallArgs,
    ToolCallResult,
    ToolCallStart,
    decode_event,
    event_type,
)
from holdfast.domain.events.custom import MessagesAbandoned, StatusChanged, StepChanged, from_custom
from holdfast.domain.ids import RunId, ToolCallId
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.message import Message, Role
from holdfast.domain.run import Run
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.step import Step, StepState
from holdfast.store.store import Store

_GENERATED_ID: Final = re.compile(r"\b[a-z]{3,4}_[0-9a-f]{32}(-thought|-\d+)?\b")
_TIME: Final = re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z")
_PAGE_EVENTS: Final = 500

Canonical: TypeAlias = dict[str, Json]


class RunHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The full history of a run and its children."""

    run: Run
    messages: list[Message]
    steps: list[Step]
    events: list[Event]
    values: dict[str, Json]
    artifacts: list[Artifact]
    interrupts: list[Interrupt]
    children: "list[RunHistory]"

    def all(self) -> "Iterator[RunHistory]":
        """Yield the run and all its descendants."""
        yield self
        for child in self.children:
            yield from child.all()


async def read(store: Store, run: RunId) -> RunHistory:
    """Read everything about a run."""
    page = await store.artifacts.page(DEFAULT_SPACE, run=run, limit=100)
    children = await store.runs.children(DEFAULT_SPACE, run)
    return RunHistory(
        run=await store.runs.get(DEFAULT_SPACE, run),
        messages=await store.messages.of_run(DEFAULT_SPACE, run),
        steps=await store.steps.of_run(DEFAULT_SPACE, run),
        events=await _events(store, run),
        values=await store.values.of_run(DEFAULT_SPACE, run),
        artifacts=[await store.artifacts.get(DEFAULT_SPACE, each.id) for each in page.items],
        interrupts=await store.interrupts.of_run(DEFAULT_SPACE, run),
        children=[await read(store, child.id) for child in children],
    )


async def _events(store: Store, run: RunId) -> list[Event]:
    events: list[Event] = []
    while page := await store.events.after(DEFAULT_SPACE, run, seq=len(events), limit=_PAGE_EVENTS):
        events += [decode_event(event.data) for event in page]
    return events


def unknown_calls(history: RunHistory) -> frozenset[str]:
    """Return the subjects of the calls with an unknown outcome."""
    return frozenset(
        _call_subject(each, step.tool_call_id)
        for each in history.all()
        for step in each.steps
        if step.state is StepState.UNKNOWN and step.tool_call_id is not None
    )


def canonical(history: RunHistory, *, unknown: Collection[str], streams: bool = True) -> Canonical:
    """Return a history without times, generated ids, recovery events, and the results of the calls in `unknown`."""
    text = msgspec.json.encode(_history(history, unknown, streams=streams)).decode()
    text = _TIME.sub("*", _GENERATED_ID.sub("*", text))
    normalized: Canonical = msgspec.json.decode(text.replace(history.run.id, "the run"))
    return normalized


def _history(history: RunHistory, unknown: Collection[str], *, streams: bool) -> Canonical:
    return {
        "status": history.run.status,
        "output": history.run.output,
        "error": history.run.error,
        "sequences": [message.sequence for message in history.messages],
        "conversation": list(_conversation(history, unknown)),
        "events": _stream(history, unknown) if streams else [],
        "values": {name: value for name, value in history.values.items() if value is not None},
        "artifacts": sorted((each.type, each.title, each.version, each.content) for each in history.artifacts),
        "interrupts": [(each.kind, each.status, each.message, each.response) for each in history.interrupts],
        "children": sorted((_history(child, unknown, streams=streams) for child in history.children), key=str),
    }


def _conversation(history: RunHistory, unknown: Collection[str]) -> Iterator[Json]:
    results = {message.tool_call_id: message for message in history.messages if message.role is Role.TOOL}
    for message in history.messages:
        if message.role is not Role.TOOL:
            calls = [
                (call.name, call.arguments, _result(history, call.id, results[call.id].content, unknown))
                for call in message.tool_calls
            ]
            yield [message.role, message.content, sorted(message.metadata), calls]


def _result(history: RunHistory, call: ToolCallId, content: Any, unknown: Collection[str]) -> Any:
    return "unknown" if _call_subject(history, call) in unknown else content


def _call_subject(history: RunHistory, call_id: ToolCallId | None) -> str:
    for message in history.messages:
        for call in message.tool_calls:
            if call.id == call_id:
                return str(call.arguments.get("what"))
    raise AssertionError(f"the call `{call_id}` is in no message")


def _stream(history: RunHistory, unknown: Collection[str]) -> list[Json]:
    """Return the content of the stream, independent of the order of concurrent events."""
    abandoned = {name for event in history.events for name in _abandoned_ids(event)}
    abandoned |= {event.tool_call_id for event in history.events if _is_call_in(event, abandoned)}
    events = [event for event in history.events if _subject(event) not in abandoned]
    items = [item for event in events for item in _items(event, history, unknown)]
    merged = [_merge(list(pieces)) for _, pieces in groupby(items, key=lambda item: item[:2] if item[1] else id(item))]
    return [item for ordered, group in groupby(merged, key=_is_ordered) for item in _sorted(ordered, list(group))]


def _abandoned_ids(event: Event) -> Iterator[str]:
    custom = from_custom(event) if isinstance(event, Custom) else None
    if isinstance(custom, MessagesAbandoned):
        for name in custom.message_ids:
            yield name
            yield f"{name}-thought"


def _is_call_in(event: Event, abandoned: Collection[str]) -> TypeGuard[ToolCallStart]:
    return isinstance(event, ToolCallStart) and event.parent_message_id in abandoned


def _subject(event: Event) -> str:
    """Return the id of the message or call that an event belongs to."""
    match event:
        case TextMessageContent(message_id=name) | ReasoningMessageContent(message_id=name):
            return name
        case ToolCallStart(tool_call_id=call) | ToolCallArgs(tool_call_id=call) | ToolCallResult(tool_call_id=call):
            return call
        case _:
            return ""


def _items(event: Event, history: RunHistory, unknown: Collection[str]) -> Iterator[list[Any]]:
    """Yield an event as its kind, its message or call, and the rest."""
    kind, subject = event_type(event), _subject(event)
    match event:
        case TextMessageContent(delta=text) | ReasoningMessageContent(delta=text) | ToolCallArgs(delta=text):
            yield [kind, subject, text]
        case ToolCallStart(tool_call_name=name):
            yield [kind, subject, name]
        case ToolCallResult(tool_call_id=call, content=content):
            yield [kind, subject, _result(history, call, content, unknown)]
        case Custom(name=name, value=value):
            if not isinstance(from_custom(event), MessagesAbandoned | StatusChanged | StepChanged):
                yield [name, "", msgspec.json.encode(value).decode()]
        case RunFinished(outcome=outcome):
            yield [kind, "", "" if outcome is UNSET else type(outcome).__name__]
        case _ if not kind.endswith(("_MESSAGE_START", "_MESSAGE_END", "REASONING_START", "REASONING_END", "CALL_END")):
            yield [kind, "", ""]  # the stream verifier checks the others
        case _:
            pass


def _merge(pieces: Sequence[list[Any]]) -> list[Any]:
    kind, name, first = pieces[0]
    return [kind, name, first if len(pieces) == 1 else "".join(str(piece[2]) for piece in pieces)]


def _is_ordered(item: list[Any]) -> bool:
    return item[0] in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT", "TOOL_CALL_START", "RUN_FINISHED")


def _sorted(ordered: bool, group: list[list[Any]]) -> list[Json]:
    items = [[kind, str(rest)] for kind, _, rest in group]
    return items if ordered else sorted(items)
