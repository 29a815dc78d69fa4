"""Going round in circles: the same call again and again, the same error, nothing new.

All of it follows from the last messages of the run, so it is the same after a crash. What a person says ends a row.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from holdfast.domain.content import Content
from holdfast.domain.ids import RunId
from holdfast.domain.message import Message, Role, ToolCall

REPEATED: Final = 3
STOPPED: Final = 5
LOOKBACK: Final = 40
"""Messages that are looked at: fewer than a thread keeps verbatim, so that a worker that takes over has them too."""
FAILED: Final = "failed"
"""The key that a result has in its metadata when its call did not go well."""

_PROGRESS: Final = ("plan_", "todo_write", "task_create", "create_artifact")
"""How the names of tools begin whose success is progress, whatever they answer."""

_Key: TypeAlias = tuple[str, bytes]


class LoopVerdict(StrEnum):
    """What is to be done about identical calls in a row."""

    GO_ON = "go_on"
    REMIND = "remind"
    STOP = "stop"


class Repetition(msgspec.Struct, frozen=True, kw_only=True):
    """How often the same was called in a row."""

    tool: str = ""
    count: int = 0

    @property
    def verdict(self) -> LoopVerdict:
        """What is to be done."""
        if self.count >= STOPPED:
            return LoopVerdict.STOP
        return LoopVerdict.REMIND if self.count >= REPEATED else LoopVerdict.GO_ON


def repetition(messages: Sequence[Message], *, run_id: RunId) -> Repetition:
    """Return how many answers in a row asked for the same calls. The same call twice in one answer counts once."""
    rounds = list(islice(_rounds(messages, run_id), STOPPED))
    if not rounds:
        return Repetition()
    return Repetition(tool=rounds[0][-1].name, count=_row([set(map(_key, calls)) for calls in rounds]))


def same_errors(messages: Sequence[Message], *, run_id: RunId) -> int:
    """Return how many of the last results of the run are the same error."""
    errors = []
    for message in _recent(messages, run_id):
        if message.role is Role.USER:
            break
        if message.role is Role.TOOL:
            if not message.metadata.get(FAILED):
                break
            errors.append(_said(message.content))
    return _row(errors)


def rounds_without_progress(messages: Sequence[Message], *, run_id: RunId) -> int:
    """Return of how many of the last rounds of calls nothing new came: no new result, no step in the plan."""
    seen: set[str | bytes] = set()
    tools: dict[str, str] = {}
    idle = 0
    for message in reversed(list(_recent(messages, run_id))):
        if message.role is Role.USER:
            idle = 0
        elif message.tool_calls:
            idle += 1
            tools.update((call.id, call.name) for call in message.tool_calls)
        elif message.role is Role.TOOL:
            said = _said(message.content)
            if said not in seen or _is_progress(message, tools):
                idle = 0
            seen.add(said)
    return idle


def _recent(messages: Sequence[Message], run_id: RunId) -> Iterator[Message]:
    """Yield the last messages of the run, the newest first."""
    return (message for message in islice(reversed(messages), LOOKBACK) if message.run_id == run_id)


def _rounds(messages: Sequence[Message], run_id: RunId) -> Iterator[list[ToolCall]]:
    """Yield the calls of each answer since a person said something, the newest first."""
    for message in _recent(messages, run_id):
        if message.role is Role.USER or (message.role is Role.ASSISTANT and not message.tool_calls):
            return
        if message.tool_calls:
            yield message.tool_calls


def _row(items: Sequence[object]) -> int:
    """Return how many of the first items are the same."""
    return next((index for index, item in enumerate(items) if item != items[0]), len(items))


def _key(call: ToolCall) -> _Key:
    return call.name, msgspec.json.encode(call.arguments, order="sorted")


def _said(content: Content) -> str | bytes:
    return content if isinstance(content, str) else msgspec.json.encode(content)


def _is_progress(result: Message, tools: dict[str, str]) -> bool:
    name = tools.get(result.tool_call_id or "", "")
    return name.startswith(_PROGRESS) and not result.metadata.get(FAILED)
