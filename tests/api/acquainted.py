"""What schemathesis is told when it explores a server that it knows: ids that are there, and values that are taken.

It is loaded by schemathesis itself. URL and KEY say where the server is, and what opens it. What is wrong on purpose
is left as it is, but asked of something that is there, lest a server that looks for it first be spared the rest.
"""

import json
import os
from collections import Counter
from collections.abc import MutableMapping
from typing import Any, Final
from uuid import uuid4

import schemathesis
from schemathesis import Case, HookContext, Response

from holdfast.domain.content import Json
from tests.api.furnished import AGENTS, MODEL, Furniture, Place

_BODIES: Final[dict[str, Json]] = {
    "call_model": {"model": MODEL, "messages": [{"content": "hello"}]},
    "chat": {"message": "hello"},
    "complete_chat": {"model": "bot", "messages": [{"role": "user", "content": "hello"}]},
    "create_artifact": {"type": "doc", "title": "hello", "content": "hello"},
    "create_key": {"name": "hello", "scope": "read", "every_space": True},
    "create_plan_item": {"title": "hello", "subtasks": [{"title": "mix"}]},
    "create_run": {"input": "hello", "tags": ["a"]},
    "create_space": {"id": "{new}"},
    "create_task": {"input": "hello"},
    "create_thread": {"title": "hello", "agent_type": "bot"},
    "mark_read": {"through": 1},
    "respond": {"response": "hello"},
    "respond_to_task": {"message": "hello"},
    "run_agent": {"threadId": "{new}", "runId": "{new}", "messages": [{"id": "1", "role": "user", "content": "hello"}]},
    "steer_run": {"content": "hello"},
    "update_plan_item": {"title": "hello"},
    "update_settings": {"locale": "en"},
    "update_space": {"name": "hello"},
    "update_thread": {"title": "hello"},
}
"""What is taken, whatever there is."""
_ENDING: Final = ("follow_run", "join_segment", "follow_task")
"""Streams of a run that come to an end when it does."""
_NEVER_ENDING: Final = ("asker", "staller")
"""Agents that the explorer learns of from lists: who waits for a run of theirs waits too long."""
_DROPPED: Final = frozenset(
    {"id", "run_id", "base_run_id", "base_sequence", "interrupt_id", "digest", "cursor", "root_run_id", "last_event_id"}
    | {"Idempotency-Key", "Last-Event-ID", "X-Holdfast-Thread", "If-Match", "sessionId", "tools", "tool_choice"}
)
"""What need not be given, and what hardly any value fits."""

_furniture: Final = Furniture(os.environ["URL"], os.environ["KEY"])
_turns: Final[Counter[str]] = Counter()
_cursors: Final[dict[str, str]] = {}
_seen: Final[set[Any]] = set()
"""Ids that an answer has given: a link may have put them where they are."""


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], **_: Any) -> None:
    """Ask for what is there, with values that fit; now and then, with what was made up."""
    assert case.meta is not None
    operation = case.operation.definition.raw["operationId"]
    turn = _turns[operation]
    _turns[operation] += 1
    negative = {place.value for place, how in case.meta.components.items() if how.mode.is_negative}
    stateful = case.meta.phase.name == "stateful"
    if case.path_parameters and "path" not in negative and (stateful or turn % 4 != 3):
        _lead(case, operation, turn)
    for values in (case.path_parameters, case.body):
        if isinstance(values, MutableMapping):
            values.update([(name, "bot") for name, value in values.items() if value in _NEVER_ENDING])
    if negative:
        return
    if stateful or turn % 3 != 2:
        _mend(case, turn)
    if (stateful or turn % 3 == 0) and (body := _BODIES.get(operation.removesuffix("_in_space"))) is not None:
        case.body = _filled(body)


@schemathesis.hook
def after_call(context: HookContext, case: Case[Any], response: Response) -> None:
    """Remember what was made, and where a list goes on."""
    if response.status_code >= 300 or "json" not in str(response.headers.get("content-type")):
        return
    answer = response.json()
    if isinstance(answer, dict):
        _seen.update(answer[name] for name in ("id", "taskId") if isinstance(answer.get(name), str))
        if isinstance(answer.get("next_cursor"), str):
            _cursors[case.operation.label] = answer["next_cursor"]


def _lead(case: Case[Any], operation: str, turn: int) -> None:
    """Go to a place that there is, unless a link leads to one."""
    ids = {name: value for name, value in case.path_parameters.items() if name != "space_id"} or case.path_parameters
    if any(value in _seen for value in ids.values()):
        return
    place = _place(operation, turn)
    for name in case.path_parameters:
        known = "item" if name == "task_id" and operation.startswith("update_plan_item") else name
        if known in place:
            case.path_parameters[name] = place[known]


def _place(operation: str, turn: int) -> Place:
    if operation.startswith("steer_run"):
        return _furniture.running
    if (fresh := _furniture.fresh(operation)) is not None:
        return fresh
    if turn % 5 == 4 and not operation.startswith(_ENDING):
        return {**_furniture.ended[0], **_furniture.waiting}
    return _furniture.ended[turn % len(_furniture.ended)]


def _mend(case: Case[Any], turn: int) -> None:
    """Put values that fit where there are some, and leave out what hardly any fits."""
    agent = AGENTS[turn % len(AGENTS)]
    named: Json = {"agent_type": agent, "agentName": agent, "model": MODEL}
    fits: Json = named | {"file_id": _furniture.file, "step": 1, "version": 1}
    for values in (case.query, case.headers, case.body):
        if isinstance(values, MutableMapping):
            for name in _DROPPED & set(values):
                del values[name]
            values.update((name, fits[name]) for name in fits if name in values)
    if turn % 2 and case.operation.label in _cursors:
        case.query = {**(case.query or {}), "cursor": _cursors[case.operation.label]}


def _filled(body: Json) -> Json:
    """Return what to send, with a new id where there must be one."""
    return json.loads(json.dumps(body).replace("{new}", f"explored-{uuid4().hex}"))
