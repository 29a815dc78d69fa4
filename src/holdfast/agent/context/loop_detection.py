"""Loop detection: identical calls in a row, repeated errors, rounds without progress.

It depends only on the last messages of the run, so it gives the same result after a crash. A user message resets it.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from holdfast.domain.content import Content
from holdfast.domain.ids import RunId
from holdfast.domain.message import FAILED_METADATA_KEY, Message, Role

REMIND_AFTER_REPEATS: Final = 3
STOP_AFTER_REPEATS: Final = 5
LOOKBACK_MESSAGES: Final = 40
"""Messages that are examined: fewer than a thread keeps verbatim, so that a worker that takes over has them too."""

_PROGRESS_TOOL_PREFIXES: Final = ("plan_", "todo_write", "task_create", "create_artifact")
"""Tools whose success is progress, whatever their result says."""


class Repetition(msgspec.Struct, frozen=True, kw_only=True):
    """How often the same calls were made in a row."""

    tool: str
    count: int


def find_repetition(messages: Sequence[Message], *, run_id: RunId) -> Repetition:
    """Return how many assistant messages in a row request the same calls. Duplicates in one message count once."""
    tool = ""
    rounds: list[set[tuple[str, bytes]]] = []
    for message in _recent_messages(messages, run_id):
        if message.role is Role.USER or (message.role is Role.ASSISTANT and not message.tool_calls):
            break
        if message.tool_calls:
            tool = tool or message.tool_calls[-1].name
            rounds.append(
                {(call.name, msgspec.json.encode(call.arguments, order="sorted")) for call in message.tool_calls}
            )
            if len(rounds) == STOP_AFTER_REPEATS:
                break
    return Repetition(tool=tool, count=_equal_prefix_length(rounds))


def count_same_errors(messages: Sequence[Message], *, run_id: RunId) -> int:
    """Return how many of the run's last tool results are the same error."""
    errors = []
    for message in _recent_messages(messages, run_id):
        if message.role is Role.USER:
            break
        if message.role is Role.TOOL:
            if not message.metadata.get(FAILED_METADATA_KEY):
                break
            errors.append(_content_key(message.content))
    return _equal_prefix_length(errors)


def count_idle_rounds(messages: Sequence[Message], *, run_id: RunId) -> int:
    """Return how many of the run's last rounds of calls made no progress: no new result, no step in the plan."""
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
            result, tool = _content_key(message.content), tools.get(message.tool_call_id or "", "")
            succeeded = not message.metadata.get(FAILED_METADATA_KEY)
            if result not in seen or (tool.startswith(_PROGRESS_TOOL_PREFIXES) and succeeded):
                idle = 0
            seen.add(result)
    return idle


def _recent_messages(messages: Sequence[Message], run_id: RunId) -> Iterator[Message]:
    """Yield the last messages of the run, newest first."""
    return (message for message in islice(reversed(messages), LOOKBACK_MESSAGES) if message.run_id == run_id)


def _equal_prefix_length(items: Sequence[object]) -> int:
    return next((index for index, item in enumerate(items) if item != items[0]), len(items))


def _content_key(content: Content) -> str | bytes:
    return content if isinstance(content, str) else msgspec.json.encode(content)
