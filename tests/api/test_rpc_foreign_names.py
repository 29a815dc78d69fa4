"""A worker cannot name what is not its run's: every field of every RPC method that names something is tried.

The fields are found in the types of the ports, so a method or field that is added fails until `EXPECTED` says what it
may name. Each is tried with an object of another run, and with one of another space.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NewType, get_args, get_type_hints

import msgspec
import pytest

from holdfast.domain.commit import Commit
from holdfast.domain.content import Json
from holdfast.domain.context import ContextSnapshot, SentSegment, text_digest
from holdfast.rpc.protocol import METHODS
from tests.api.test_worker_rpc import Rpc, claim_of, minimal_body, rpc

__all__ = ["rpc"]

NAMES: Final = frozenset(
    {"agent", "author", "created_by", "folder", "idempotency_key", "key", "owners", "place", "start", "step", "waits"}
)
"""Fields that name something although they are plain text."""

REFUSED: Final[tuple[int, ...]] = (400, 403, 404, 409)
OWN: Final[tuple[int, ...]] = (200, *REFUSED)
"""The name of something new, or part of the run's own log: it may be taken, and changes nothing that exists."""
NEW: Final[tuple[int, ...]] = (200, 201, *REFUSED)
"""The id of something new: one that is used in the space is refused."""
SHARED: Final[tuple[int, ...]] = (200, 202, *REFUSED)
"""An artifact or memory of the space, which every run of the space may replace by a new version."""
READ: Final[tuple[int, ...]] = (200, 404)
"""Something to read: that of the same space may be, that of another one is not there."""


def fields_of(hint: Any, path: str, seen: frozenset[type] = frozenset()) -> Iterator[tuple[str, str]]:
    """Yield the paths of the fields below a type that name something, and what they name."""
    if isinstance(hint, NewType):
        if hint.__name__.endswith(("Id", "Path")):
            yield path, hint.__name__
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        if hint not in seen:
            for field, inner in get_type_hints(hint).items():
                if field in hint.__struct_fields__:
                    yield from fields_of(inner, f"{path}.{field}", seen | {hint})
    elif hint is str and path.rpartition(".")[2] in NAMES:
        yield path, path.rpartition(".")[2]
    else:
        for argument in get_args(hint):
            yield from fields_of(argument, path, seen)


def all_fields() -> Iterator[tuple[str, str, str]]:
    """Yield each method with the paths of what its body names. Events are text of the run's own log."""
    for port, name in sorted(METHODS):
        struct = Commit if (port, name) == ("journal", "commit") else METHODS[port, name].arguments
        for field, hint in get_type_hints(struct).items():
            if not (struct is Commit and field in ("lease", "number", "events")):
                yield from ((f"{port}/{name}", *found) for found in fields_of(hint, field))


KINDS: Final = {(method, path): kind for method, path, kind in all_fields()}
CHILD: Final[dict[str, Json]] = {"id": "run_new", "thread": {"id": "thr_new"}, "agent_type": "bot", "input": "x"}
CALL: Final[dict[str, Json]] = {"id": "c", "name": "x", "arguments": {}}
MEMORY: Final[dict[str, Json]] = {"type": "semantic", "text": "x", "origin": "agent", "author": "bot", "agent": "bot"}
PARTS: Final[dict[str, dict[str, Json]]] = {
    "messages": {"messages": [{"role": "assistant", "content": "x", "tool_calls": [CALL]}]},
    "steps": {"steps": [{"number": 1, "kind": "tool", "name": "x", "key": "k"}]},
    "interrupts": {
        "move": {"to": "waiting", "reason": "person"},
        "interrupts": [{"kind": "input", "message": "?"}],
    },
    "artifacts": {"artifacts": [{"type": "doc", "title": "x", "content": "x"}]},
    "artifacts.file": {"artifacts": [{"type": "doc", "title": "x", "file": {"name": "x", "content": "eA=="}}]},
    "artifacts.file_id": {"artifacts": [{"type": "doc", "title": "x"}]},
    "memories": {"memories": [{**MEMORY, "sources": [{"message_id": "msg_x", "thread_id": "thr_x"}]}]},
    "children": {"children": [CHILD]},
    "follow_ups": {"follow_ups": [CHILD]},
    "timers": {"timers": [{"kind": "wake", "due_at": "2099-01-01T00:00:00.000Z"}]},
    "withdrawn": {"withdrawn": []},
    "cancelled_timers": {"cancelled_timers": []},
    "move": {"move": {"to": "waiting", "reason": "child", "waits_on": []}},
}
"""Commits with a part in which something can be named."""


def run_fields(port: str, name: str, field: str) -> dict[tuple[str, str], tuple[int, ...]]:
    """Return what the fields of a new run may name."""
    own = ("messages.id", "messages.tool_calls.id", "messages.tool_call_id", "messages.revises")
    refused = ("thread", "thread.created_by", "messages.created_by", "base.run_id", "parent_run_id", "created_by")
    found = {(f"{port}/{name}", f"{field}.{each}"): OWN for each in own}
    found |= {(f"{port}/{name}", f"{field}.{each}"): REFUSED for each in (*refused, "idempotency_key")}
    return found | {(f"{port}/{name}", f"{field}.{each}"): NEW for each in ("id", "thread.id")}


EXPECTED: Final[dict[tuple[str, str], tuple[int, ...]]] = {
    **{("journal/commit", f"messages.{each}"): OWN for each in ("id", "tool_calls.id", "tool_call_id", "revises")},
    ("journal/commit", "messages.created_by"): REFUSED,
    ("journal/commit", "steps.tool_call_id"): OWN,
    ("journal/commit", "steps.key"): OWN,
    ("journal/commit", "interrupts.id"): NEW,
    ("journal/commit", "interrupts.tool_call_id"): OWN,
    ("journal/commit", "withdrawn"): OWN,
    ("journal/commit", "artifacts.id"): SHARED,
    ("journal/commit", "artifacts.file.id"): NEW,
    ("journal/commit", "artifacts.file_id"): READ,
    ("journal/commit", "artifacts.created_by"): REFUSED,
    ("journal/commit", "artifacts.file.created_by"): REFUSED,
    ("journal/commit", "memories.id"): OWN,
    ("journal/commit", "memories.key"): OWN,
    ("journal/commit", "memories.supersedes"): SHARED,
    ("journal/commit", "memories.sources.message_id"): OWN,
    ("journal/commit", "memories.sources.thread_id"): OWN,
    **{("journal/commit", f"memories.{each}"): REFUSED for each in ("author", "agent", "thread_id", "run_id")},
    **run_fields("journal", "commit", "children"),
    **run_fields("journal", "commit", "follow_ups"),
    **run_fields("subagents", "spawn", "new"),
    ("journal/commit", "timers.id"): NEW,
    ("journal/commit", "cancelled_timers"): OWN,
    ("journal/commit", "move.waits_on"): OWN,
    ("journal/next_task_id", "step"): REFUSED,
    **{(f"folders/{each}", "folder"): REFUSED for each in ("download", "open", "save")},
    ("folders/open", "place"): OWN,
    ("folders/save", "place"): OWN,
    ("library/artifact", "artifact"): READ,
    ("library/file", "file"): READ,
    ("library/file_info", "file"): READ,
    ("library/skill_file", "skill"): READ,
    ("library/skill_version", "skill"): READ,
    **{("memory/" + each, field): REFUSED for each, field in (("change_file", "path"), ("file", "path"))},
    ("memory/files", "paths"): REFUSED,
    ("memory/search_files", "owners"): REFUSED,
    ("memory/conversation", "runs"): READ,
    ("memory/memories", "ids"): READ,
    ("memory/messages", "names"): READ,
    ("memory/neighbours", "names"): READ,
    ("memory/provenance", "memory"): READ,
    ("memory/recall", "query.thread"): READ,
    ("memory/recall", "query.author"): OWN,
    ("memory/timeline", "query.thread_id"): READ,
    ("memory/walk", "start"): READ,
    ("remote/call", "key"): REFUSED,
    ("remote/resume", "key"): REFUSED,
    ("subagents/end", "runs"): REFUSED,
    ("subagents/subscribe", "target"): READ,
    ("subagents/subscribe", "waits"): REFUSED,
    ("subagents/taint", "run"): READ,
}


def test_every_field_that_names_something_is_known() -> None:
    assert set(KINDS) == set(EXPECTED)


class Foreign:
    """A run of somebody else that waits for a person, with an artifact, a memory, a file and a timer."""

    def __init__(self, rpc: Rpc, space: str) -> None:
        self.rpc, self.space = rpc, space
        self.marker = f"secret of {space}"
        self.base = f"/api/spaces/{space}"
        run = rpc.request(f"{self.base}/runs", {"agent_type": "bot", "input": self.marker})
        status, (claimed,) = rpc.call("leases/claim", {"owner": "f", "lease_seconds": 3600, "limit": 1})
        assert (status, claimed["lease"]["run_id"]) == (200, run["id"])
        own = {"run_id": run["id"], "thread_id": run["thread_id"]}
        named = {kind: f"{kind.removesuffix('Id').lower()}_of_{space}" for kind in ("Artifact", "File", "Memory")}
        parts: dict[str, Json] = {
            "messages": [{"role": "assistant", "content": self.marker, "id": f"msg_of_{space}"}],
            "artifacts": [
                {"type": "doc", "title": "x", "content": self.marker, "id": named["Artifact"]},
                {"type": "doc", "title": "x", "file": {"name": "x", "content": "eA==", "id": named["File"]}},
            ],
            "memories": [{**MEMORY, **own, "text": self.marker, "id": named["Memory"]}],
            "timers": [{"kind": "wake", "due_at": "2099-01-01T00:00:00.000Z", "id": f"tmr_of_{space}"}],
            "interrupts": [{"kind": "input", "message": self.marker, "id": f"int_of_{space}"}],
            "move": {"to": "waiting", "reason": "person"},
        }
        assert rpc.call("journal/commit", parts, lease=claimed["token"])[0] == 200
        self.names: dict[str, str] = {
            **{f"{kind}Id": name for kind, name in named.items()},
            "RunId": run["id"],
            "ThreadId": run["thread_id"],
            "MessageId": f"msg_of_{space}",
            "ToolCallId": f"call_of_{space}",
            "InterruptId": f"int_of_{space}",
            "TimerId": f"tmr_of_{space}",
            "SkillId": f"skl_of_{space}",
            "MemoryPath": "agents/trainer/MEMORY.md",
            "start": named["Memory"],
            **dict.fromkeys(("key", "step", "waits"), f"{run['id']}.1"),
            **dict.fromkeys(
                ("agent", "author", "created_by", "folder", "idempotency_key", "owners", "place"), "trainer"
            ),
        }

    def state(self, *, shared: bool) -> list[Json]:
        """Return what can be seen of it, without what every run of its space may change if `shared`."""
        names = self.names
        paths = [
            f"runs/{names['RunId']}",
            f"threads/{names['ThreadId']}/messages",
            f"interrupts/{names['InterruptId']}",
            f"files/{names['FileId']}",
        ]
        if not shared:
            paths += [f"artifacts/{names['ArtifactId']}", f"memories/{names['MemoryId']}"]
        return [self.rpc.request(f"{self.base}/{path}") for path in paths]


@pytest.fixture(scope="module", params=["default", "tenant"])
def foreign(rpc: Rpc, request: pytest.FixtureRequest) -> Foreign:
    return Foreign(rpc, request.param)


def put(body: Any, path: str, value: Any) -> None:
    """Set the field at a path, in the first element of each list on the way."""
    field, _, rest = path.partition(".")
    body = body[0] if isinstance(body, list) else body
    if rest and not isinstance(body.get(field), (dict, list)):
        body[field] = {}
    if rest:
        put(body[field], rest, value)
    else:
        body[field] = value


def body_naming(foreign: Foreign, method: str, path: str, lease: Json) -> Json:
    """Return a body that names something of a foreign run, and is valid otherwise."""
    body: Json = minimal_body(method)
    if method == "journal/commit":
        part = max((part for part in PARTS if path.startswith(part)), key=len)
        body = json.loads(json.dumps(PARTS[part]))
    own = {"run_id": lease["run_id"], "thread_id": lease["thread_id"]}
    if "memories" in body:
        body["memories"][0] |= own
    if "children" in body:
        body["children"][0]["parent_run_id"] = lease["run_id"]
    if method == "remote/call":
        body = {"name": "task_status", "arguments": {"task_id": lease["run_id"]}, "key": f"{lease['run_id']}.1"}
    if method == "subagents/spawn":
        body = {"new": CHILD | {"parent_run_id": lease["run_id"]}}
    names = foreign.names
    value: Json = names[KINDS[method, path]]
    if path == "names":  # pairs
        value = [names["ThreadId"], names["MessageId"] if method == "memory/messages" else 0]
    if path in ("withdrawn", "cancelled_timers", "move.waits_on", "runs", "ids", "names", "paths", "owners"):
        value = [value]
    if path == "memories.supersedes":
        value = [value]
    if path.endswith(("messages.created_by", "messages.id", "messages.revises")) and "messages" not in body:
        put(body, path.rpartition(".")[0], [{"role": "user", "content": "x"}])
    put(body, path, value)
    return body


@pytest.mark.parametrize("part", [*PARTS, "spawn"])
def test_the_bodies_are_accepted_if_they_name_nothing_of_others(rpc: Rpc, part: str) -> None:
    token, lease = rpc.claim()
    child = {**CHILD, "id": f"run_of_{part}", "thread": {}}
    body: Json = json.loads(json.dumps(PARTS.get(part, {"new": child | {"parent_run_id": lease["run_id"]}})))
    if "memories" in body:
        body["memories"][0] |= {"run_id": lease["run_id"], "thread_id": lease["thread_id"]}
    if part == "children":
        child["parent_run_id"] = lease["run_id"]
    if part in ("children", "follow_ups"):
        body[part] = [child]
    if part == "artifacts.file_id":
        body["artifacts"][0]["content"] = "x"
    status, answer = rpc.call("subagents/spawn" if part == "spawn" else "journal/commit", body, lease=token)
    assert status == 200, answer
    end(rpc, token)


def test_a_remote_tool_is_called_under_a_key_of_the_run(rpc: Rpc) -> None:
    token, lease = rpc.claim()
    body = {"name": "task_status", "arguments": {"task_id": lease["run_id"]}, "key": f"{lease['run_id']}.1"}
    status, reply = rpc.call("remote/call", body, lease=token)
    assert (status, reply["failed"]) == (200, False)
    end(rpc, token)


def test_a_text_of_a_context_is_stored_under_its_own_digest_only(rpc: Rpc) -> None:
    token, _ = rpc.claim()
    for text, status in (("you are helpful", 200), ("you are hostile", 400)):
        digest = text_digest("you are helpful")
        sent = ContextSnapshot(
            step=1,
            model="m",
            segments=(SentSegment(name="core", digest=digest, tokens=1),),
            conversation=(),
            reminders=(),
            tools=digest,
            tokens={},
            first_sequence=None,
            last_sequence=None,
            compaction_through=None,
            texts={digest: text},
        )
        commit = {"contexts": [msgspec.to_builtins(sent)]}
        assert rpc.call("journal/commit", commit, lease=token, commit=str(status))[0] == status
    end(rpc, token)


def test_a_message_may_have_the_author_of_the_inbox_item_that_it_was(rpc: Rpc) -> None:
    token, lease = rpc.claim()
    rpc.request(f"/api/runs/{lease['run_id']}/messages", {"content": "Faster!"}, scope="run")
    (item,) = rpc.call("journal/inbox", lease=token)[1]
    assert item["created_by"] not in (None, lease["run"]["created_by"])
    said = {"messages": [{"role": "user", "content": "Faster!", "created_by": item["created_by"]}]}
    assert rpc.call("journal/commit", said, lease=token)[0] == 400, "it was not consumed"
    read = said | {"consumed": [item["number"]]}
    status, committed = rpc.call("journal/commit", read, lease=token)
    assert status == 200
    assert rpc.call("journal/commit", read, lease=token) == (200, committed), "sent again"
    end(rpc, token)


def end(rpc: Rpc, token: str) -> None:
    """End the run of a token, and those that it started."""
    rpc.call("leases/fail", lease=token)
    for each in claim_of(rpc, "worker")[1]:
        rpc.call("leases/fail", lease=each["token"])


@pytest.mark.parametrize("method", sorted({method for method, _ in EXPECTED}))
def test_a_worker_names_nothing_of_others(rpc: Rpc, foreign: Foreign, method: str) -> None:
    for path in [path for of, path in EXPECTED if of == method]:
        expected = EXPECTED[method, path]
        same_space = foreign.space == "default"
        shared = expected is SHARED and same_space
        before = foreign.state(shared=shared)
        token, lease = rpc.claim()
        body = body_naming(foreign, method, path, lease)
        status, answer = rpc.call(method, body, lease=token)
        allowed = REFUSED if expected is NEW and same_space else expected
        assert status in allowed, f"{path}: {status} {answer}"
        if not (expected is READ and same_space):
            assert foreign.marker not in json.dumps(answer), path
        assert foreign.state(shared=shared) == before, path
        end(rpc, token)
