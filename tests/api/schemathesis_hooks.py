"""Schemathesis hooks that fill in ids that exist on the server and values that it accepts.

Schemathesis loads this module. The variables URL and KEY hold the address of the server and an admin key. Values that
are invalid on purpose are kept, but sent to an existing object: otherwise the server returns 404 before it reads them.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, MutableMapping
from typing import Any, Final
from uuid import uuid4

import schemathesis
from schemathesis import Case, HookContext, Response

from holdfast.domain.content import Json
from tests.api.example_data import AGENT, AGENTS, ENTITY, MODEL, ExampleData, Ids

_BODIES: Final[dict[str, Json]] = {
    "call_model": {"model": MODEL, "messages": [{"content": "hello"}]},
    "chat": {"message": "hello"},
    "complete_chat": {"model": "bot", "messages": [{"role": "user", "content": "hello"}]},
    "create_response": {"model": "bot", "input": "hello"},
    "create_artifact": {"type": "doc", "title": "hello", "content": "hello"},
    "create_memory": {"text": "hello {new}"},
    "create_schedule": {"cron": "0 0 1 1 *", "action": {"type": "notify", "message": "hello"}},
    "create_reminder": {"content": "hello", "trigger_type": "time", "trigger_value": "0 0 1 1 *"},
    "snooze_reminder": {"until": "in 9 d"},
    "update_reminder": {"content": "hello"},
    "create_webhook": {"url": "http://127.0.0.1:1024/", "events": ["webhook.*"]},
    "update_webhook": {"description": "hello"},
    **dict.fromkeys(("create_agent", "create_contract_agent"), {"name": "{new}", **AGENT}),
    **dict.fromkeys(("replace_agent", "replace_contract_agent"), AGENT),
    **dict.fromkeys(("update_agent", "update_contract_agent"), {"instructions": "hello {new}"}),
    "create_skill": {"name": "{new}", "description": "hello", "instructions": "hello"},
    "create_key": {"name": "hello", "scope": "read", "every_space": True},
    "create_plan_item": {"title": "hello", "subtasks": [{"title": "mix"}]},
    "create_run": {"input": "hello", "tags": ["a"]},
    "create_run_on_thread": {"input": "hello", "agent_type": "bot"},
    "create_space": {"id": "{new}"},
    "create_task": {"input": "hello"},
    "create_ticket": {"path": "/ws"},
    "create_thread": {"title": "hello", "agent_type": "bot"},
    "forget_memories": {"before": "2000-01-01T00:00:00.000Z"},
    "supersede_memory": {"memory": {"text": "hello {new}"}},
    "trigger_daemon": {},
    "update_memory": {"title": "hello"},
    "write_memory_file": {"text": "- hello {new}"},
    "write_memory_file_of_agent": {"text": "- hello {new}"},
    "update_schedule": {"name": "hello"},
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
"""A body that each operation accepts."""
_RUN_STREAMS: Final = ("follow_run", "join_segment", "follow_task")
"""Streams that end when their run ends."""
_ENDLESS_AGENTS: Final = ("asker", "staller")
"""Agents whose runs do not end by themselves: a request that waits for them would time out."""
_DROPPED: Final = frozenset(
    {"id", "run_id", "base_run_id", "base_sequence", "interrupt_id", "digest", "cursor", "root_run_id", "last_event_id"}
    | {"Idempotency-Key", "Last-Event-ID", "X-Holdfast-Thread", "If-Match", "sessionId", "tools", "tool_choice"}
)
"""Optional fields for which a generated value is rarely valid."""

_examples: Final = ExampleData(os.environ["URL"], os.environ["KEY"])
_FIXED_BODIES: Final[dict[str, Callable[[], Json | bytes]]] = {
    "forget_memories": lambda: _BODIES["forget_memories"],  # a generated selection could be everything
    "import_memories": _examples.exported_memory,
    "import_skill": _examples.exported_skill,
    "deliver_hook": lambda: b"hello",
}
"""Bodies of operations for which a generated one is never right."""
_call_counts: Final[Counter[str]] = Counter()
_cursors: Final[dict[str, str]] = {}
_returned_ids: Final[set[Any]] = set()
"""Ids from responses, which links put into later requests."""


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], **_: Any) -> None:
    """Fill in existing ids and valid values; keep the generated ones in some of the calls."""
    assert case.meta is not None
    operation = case.operation.definition.raw["operationId"]
    turn = _call_counts[operation]
    _call_counts[operation] += 1
    negative = {place.value for place, component in case.meta.components.items() if component.mode.is_negative}
    stateful = case.meta.phase.name == "stateful"
    # Only links put ids of responses into a path. A generated value may also be one: other requests chose it as an id.
    linked = stateful and _has_returned_id(case)
    if case.path_parameters and "path" not in negative and not linked and (stateful or turn % 4 != 3):
        _fill_in_ids(case, operation, turn)
    for values in (case.path_parameters, case.body):
        if isinstance(values, MutableMapping):
            values.update([(name, "bot") for name, value in values.items() if value in _ENDLESS_AGENTS])
    if negative:
        return
    if stateful or turn % 3 != 2:
        _fill_in_values(case, turn)
    if (stateful or turn % 3 == 0) and (body := _BODIES.get(operation.removesuffix("_in_space"))) is not None:
        case.body = _with_new_ids(body)
    if (fixed := _FIXED_BODIES.get(operation.removesuffix("_in_space"))) is not None:
        case.body = fixed()


@schemathesis.hook
def after_call(context: HookContext, case: Case[Any], response: Response) -> None:
    """Record the id and the next cursor of a response."""
    if response.status_code >= 300 or response.headers.get("content-type") != ["application/json"]:
        return
    body = response.json()
    if isinstance(body, dict):
        _returned_ids.update(body[name] for name in ("id", "taskId") if isinstance(body.get(name), str))
        if isinstance(body.get("next_cursor"), str):
            _cursors[case.operation.label] = body["next_cursor"]


def _has_returned_id(case: Case[Any]) -> bool:
    ids = {name: value for name, value in case.path_parameters.items() if name != "space_id"} or case.path_parameters
    return any(value in _returned_ids for value in ids.values())


def _fill_in_ids(case: Case[Any], operation: str, turn: int) -> None:
    """Put existing ids into the path."""
    existing = _existing_ids(operation, turn)
    if operation.startswith("compare_branches") and isinstance(case.query, MutableMapping):
        case.query.update({name: existing[name] for name in ("a", "b")})
    if operation.startswith("diff_agent_versions") and isinstance(case.query, MutableMapping):
        case.query["to"] = existing["digest"]
    for name in case.path_parameters:
        key = "item" if name == "task_id" and operation.startswith(("read_plan_item", "update_plan_item")) else name
        if key in existing:
            case.path_parameters[name] = existing[key]


def _existing_ids(operation: str, turn: int) -> Ids:
    if operation.startswith("steer_run"):
        return _examples.running
    if operation.startswith("compare_branches"):
        return _examples.branches
    if (fresh := _examples.fresh(operation)) is not None:
        return fresh
    if turn % 5 == 4 and not operation.startswith(_RUN_STREAMS):
        return {**_examples.ended[0], **_examples.waiting}
    return _examples.ended[turn % len(_examples.ended)]


def _fill_in_values(case: Case[Any], turn: int) -> None:
    """Put in valid values where there are some, and leave out fields that are rarely valid."""
    agent = AGENTS[turn % len(AGENTS)]
    names: Json = {"agent_type": agent, "agentName": agent, "model": MODEL}
    valid: Json = names | {"file_id": _examples.file, "step": 1, "version": 1, "start": ENTITY, "q": "hello"}
    for values in (case.query, case.headers, case.body):
        if isinstance(values, MutableMapping):
            for name in _DROPPED & set(values):
                del values[name]
            values.update((name, valid[name]) for name in valid if name in values)
    if turn % 2 and case.operation.label in _cursors:
        case.query = {**(case.query or {}), "cursor": _cursors[case.operation.label]}


def _with_new_ids(body: Json) -> Json:
    """Return a body with a new id in each place that needs one."""
    return json.loads(json.dumps(body).replace("{new}", f"explored-{uuid4().hex}"))
