"""Loop detection: identical calls in a row, the same error again, rounds without progress.

It depends only on the last messages of the run, so it gives the same answer after a crash. A user message resets it.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from holdfast.domain.content import Content
from holdfast.domain.ids import RunId
from holdfast.domain.message import Message, Role, ToolCall

REMIND_AFTER_REPEATS: Final = 3
STOP_AFTER_REPEATS: Final = 5
LOOKBACK_MESSAGES: Final = 40
"""Messages that are looked at: fewer than a thread keeps verbatim, so that a worker that takes over has them too."""
FAILED_KEY: Final = "failed"
"""The key that a result has in its metadata when its call did not go well."""

_PROGRESS_TOOL_PREFIXES: Final = ("plan_", "todo_write", "task_create", "create_artifact")
"""How the names of tools begin whose success is progress, whatever they answer."""

_CallKey: TypeAlias = tuple[str, bytes]


class LoopAction(StrEnum):
    """What is to be done about identical calls in a row."""

    GO_ON = "go_on"
    REMIND = "remind"
    STOP = "stop"


class Repetition(msgspec.Struct, frozen=True, kw_only=True):
    """How often the same was called in a row."""

    tool: str = ""
    count: int = 0

    @property
    def action(self) -> LoopAction:
        """What is to be done."""
        if self.count >= STOP_AFTER_REPEATS:
            return LoopAction.STOP
        return LoopAction.REMIND if self.count >= REMIND_AFTER_REPEATS else LoopAction.GO_ON


def find_repetition(messages: Sequence[Message], *, run_id: RunId) -> Repetition:
    """Return how many answers in a row asked for the same calls. The same call twice in one answer counts once."""
    rounds = list(islice(_call_rounds(messages, run_id), STOP_AFTER_REPEATS))
    if not rounds:
        return Repetition()
    return Repetition(
        tool=rounds[0][-1].name, count=_equal_prefix_length([set(map(_call_key, calls)) for calls in rounds])
    )


def count_same_errors(messages: Sequence[Message], *, run_id: RunId) -> int:
    """Return how many of the last results of the run are the same error."""
    errors = []
    for message in _recent_messages(messages, run_id):
        if message.role is Role.USER:
            break
        if message.role is Role.TOOL:
            if not message.metadata.get(FAILED_KEY):
                break
            errors.append(_content_key(message.content))
    return _equal_prefix_length(errors)


def count_idle_rounds(messages: Sequence[Message], *, run_id: RunId) -> int:
    """Return of how many of the last rounds of calls nothing new came: no new result, no step in the plan."""
    seen: set[str | bytes] = set()
    tools: dict[str, str] = {}
    idle = 0
    for message in reversed(list(_recent_messages(messages, run_id))):
        if message.role is Role.USER:
            idle = 0
        elif message.tool_calls:
            idle += 1
            tools.update((call.id, call.name) for call in message.tool_calls)
        elif message.role is Role.TOOL:
            said = _content_key(message.content)
            if said not in seen or _is_progress(message, tools):
                idle = 0
            seen.add(said)
    return idle


def _recent_messages(messages: Sequence[Message], run_id: RunId) -> Iterator[Message]:
    """Yield the last messages of the run, the newest first."""
    return (message for message in islice(reversed(messages), LOOKBACK_MESSAGES) if message.run_id == run_id)


def _call_rounds(messages: Sequence[Message], run_id: RunId) -> Iterator[list[ToolCall]]:
    """Yield the calls of each answer since a person said something, the newest first."""
    for message in _recent_messages(messages, run_id):
        if message.role is Role.USER or (message.role is Role.ASSISTANT and not message.tool_calls):
            return
        if message.tool_calls:
            yield message.tool_calls


def _equal_prefix_length(items: Sequence[object]) -> int:
    """Return how many of the first items are the same."""
    return next((index for index, item in enumerate(items) if item != items[0]), len(items))


def _call_key(call: ToolCall) -> _CallKey:
    return call.name, msgspec.json.encode(call.arguments, order="sorted")


def _content_key(content: Content) -> str | bytes:
    return content if isinstance(content, str) else msgspec.json.encode(content)


def _is_progress(result: Message, tools: dict[str, str]) -> bool:
    name = tools.get(result.tool_call_id or "", "")
    return name.startswith(_PROGRESS_TOOL_PREFIXES) and not result.metadata.get(FAILED_KEY)
