"""The control RPC from outside: which key may call what, under which lease, and what a body may say."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import httpx2
import pytest

from holdfast.domain.content import Json
from holdfast.rpc.protocol import METHODS, PROTOCOL_VERSION
from tests.api.conftest import write_agents
from tests.api.server_process import TIMEOUT_SECONDS, run_server
from tests.scenario.agents.agent_workspace import AgentWorkspace, say

UNDER_LEASE: Final = sorted({f"{port}/{name}" for port, name in METHODS} | {"leases/release", "leases/fail"})
"""The calls that need the token of a lease."""
WITHOUT_LEASE: Final = [
    *("leases/claim", "leases/renew", "leases/release_leftover", "leases/queue_state", "leases/check_pools"),
    *("leases/beat", "leases/leave"),
]
BODIES: Final[dict[str, Json]] = {
    "leases/claim": {"owner": "w", "lease_seconds": 60, "limit": 1},
    "leases/renew": {"owner": "w", "lease_seconds": 60, "tokens": []},
    "leases/release_leftover": {"tokens": []},
    "leases/check_pools": {"pools": ["default"]},
    "leases/fail": {"error": {"code": "INTERNAL", "message": "x"}},
}


class Rpc:
    """Calls of a worker, over plain HTTP."""

    def __init__(self, client: httpx2.Client, keys: dict[str, str]) -> None:
        self.keys = keys
        self.client = client

    def request(self, path: str, body: Json = None, *, scope: str = "admin") -> Json:
        """Send a request to the API."""
        headers = {"Authorization": f"Bearer {self.keys[scope]}"}
        response = self.client.request("GET" if body is None else "POST", path, json=body, headers=headers)
        assert response.is_success, response.text
        return response.json()

    def call(
        self,
        method: str,
        body: Json = None,
        *,
        scope: str | None = "worker",
        lease: str | None = None,
        commit: str | None = "1",
        call: str | None = None,
        version: str = PROTOCOL_VERSION,
    ) -> tuple[int, Json]:
        """Call a method of the RPC; return the status and the result or the code of the error."""
        headers = {"Holdfast-Rpc-Version": version, "Content-Type": "application/json"}
        if scope is not None:
            headers["Authorization"] = f"Bearer {self.keys[scope]}"
        if lease is not None:
            headers["Holdfast-Lease"] = lease
        if commit is not None and method == "journal/commit":
            headers["Holdfast-Commit"] = commit
        if call is not None:
            headers["Holdfast-Call"] = call
        content = json.dumps(BODIES.get(method, {}) if body is None else body)
        response = self.client.post(f"/rpc/{method}", content=content, headers=headers)
        return response.status_code, response.json() if response.is_success else response.json()["code"]

    def claim(self) -> tuple[str, Json]:
        """Start a run and claim it; return its token and its lease."""
        self.request("/api/runs", {"agent_type": "bot", "input": "go"})
        status, claimed = self.call("leases/claim")
        assert status == 200
        return claimed[0]["token"], claimed[0]["lease"]


@pytest.fixture(scope="module")
def rpc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rpc]:
    folder: Path = tmp_path_factory.mktemp("rpc")
    workspace = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    write_agents(workspace)
    workspace.agent(say("trained"), name="trainer", pool="gpu")
    with run_server(folder, "--workers", "0", "--quiet") as server:
        keys: dict[str, str] = {}
        for scope in ("admin", "read", "run", "worker"):
            headers = {"Authorization": f"Bearer {keys['admin']}"} if keys else {}
            body = {"name": scope, "scope": scope, "every_space": True}
            keys[scope] = server.request("/api/keys", body, headers=headers)["secret"]
        admin = {"Authorization": f"Bearer {keys['admin']}"}
        server.request("/api/spaces", {"id": "tenant"}, headers=admin)
        bound: dict[str, dict[str, Json]] = {
            "tenant worker": {"space_ids": ["tenant"]},
            "other worker": {"every_space": True},
            "gpu worker": {"every_space": True, "pools": ["gpu"]},
        }
        for name, rights in bound.items():
            made = {"name": name, "scope": "worker"} | rights
            keys[name] = server.request("/api/keys", made, headers=admin)["secret"]
        with httpx2.Client(base_url=server.url, timeout=TIMEOUT_SECONDS, trust_env=False) as client:
            yield Rpc(client, keys)


@pytest.mark.parametrize("method", [*WITHOUT_LEASE, *UNDER_LEASE, "nothing/here"])
def test_every_call_needs_a_key_of_a_worker(rpc: Rpc, method: str) -> None:
    assert rpc.call(method, scope=None) == (401, "UNAUTHENTICATED")
    assert rpc.call(method, scope="read") == (403, "FORBIDDEN")
    assert rpc.call(method, scope="run") == (403, "FORBIDDEN")


def test_a_worker_key_opens_nothing_else(rpc: Rpc) -> None:
    headers = {"Authorization": f"Bearer {rpc.keys['worker']}"}
    for path in ("/api/runs", "/api/threads", "/api/keys", "/metrics", "/api/spaces"):
        assert rpc.client.get(path, headers=headers).status_code == 403, path


@pytest.mark.parametrize("method", UNDER_LEASE)
def test_a_call_needs_the_token_of_its_own_lease(rpc: Rpc, method: str) -> None:
    token, lease = rpc.claim()
    space, run, number, secret = token.split("/")
    body = minimal_body(method, run)
    assert rpc.call(method, body)[0] == 400
    for forged in (
        f"{space}/{run}/{number}/{'x' * len(secret)}",
        f"{space}/{run}/{int(number) + 1}/{secret}",
        f"other/{run}/{number}/{secret}",
        f"{space}/run_0000/{number}/{secret}",
    ):
        assert rpc.call(method, body, lease=forged) == (409, "LEASE_LOST"), forged
    assert rpc.call(method, body, lease=token, scope="other worker") == (409, "LEASE_LOST")
    assert rpc.call("leases/release", {"delay_seconds": 0.0}, lease=token)[0] == 200
    if method != "journal/charge_ended":  # it tells that nothing was charged
        assert rpc.call(method, body, lease=token) == (409, "LEASE_LOST"), "after its release"
    status, claimed = rpc.call("leases/claim")
    assert status == 200
    assert claimed[0]["lease"]["run_id"] == lease["run_id"]
    rpc.call("leases/fail", lease=claimed[0]["token"])


@pytest.mark.parametrize("method", UNDER_LEASE)
def test_a_body_names_no_lease_key_or_space(rpc: Rpc, method: str) -> None:
    token, lease = rpc.claim()
    for field, value in (("lease", lease), ("space_id", "default"), ("run_key", 1), ("number", 1)):
        body = minimal_body(method) | {field: value}
        assert rpc.call(method, body, lease=token) == (400, "INVALID"), field
    rpc.call("leases/fail", lease=token)


def test_a_commit_is_applied_once_however_often_it_is_sent(rpc: Rpc) -> None:
    token, lease = rpc.claim()
    commit = {"events": [{"type": "CUSTOM", "name": "mine", "value": 1}]}
    status, first = rpc.call("journal/commit", commit, lease=token, commit="1")
    assert status == 200
    assert rpc.call("journal/commit", commit, lease=token, commit="1") == (200, first)
    assert rpc.call("journal/commit", {"iterations": 1}, lease=token, commit="1") == (409, "CONFLICT")
    end = {"move": {"to": "completed"}}
    status, last = rpc.call("journal/commit", end, lease=token, commit="2")
    assert status == 200
    assert rpc.call("journal/commit", end, lease=token, commit="2") == (200, last)
    assert rpc.call("journal/commit", commit, lease=token, commit="3") == (409, "LEASE_LOST")
    assert rpc.request(f"/api/runs/{lease['run_id']}")["last_event_seq"] == last["last_event_seq"]
    for number in ("", "-1", "1.5", "9" * 30, "x"):
        assert rpc.call("journal/commit", end, lease=token, commit=number) == (400, "INVALID")


def test_a_call_that_arrives_twice_is_executed_once(rpc: Rpc) -> None:
    for _ in range(2):
        rpc.request("/api/runs", {"agent_type": "bot", "input": "go"})
    status, first = rpc.call("leases/claim", call="c1")
    assert (status, len(first)) == (200, 1)
    assert rpc.call("leases/claim", call="c1") == (200, first)
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(rpc.call, "leases/claim", call="c2") for _ in range(2)]
    (second, same) = [each.result() for each in both]
    assert second == same
    assert (second[0], len(second[1])) == (200, 1)
    assert second[1] != first
    fail_all(rpc, [*first, *second[1]], "worker")
    rpc.request("/api/runs", {"agent_type": "bot", "input": "go"})
    status, third = rpc.call("leases/claim", call="c1", scope="other worker")
    assert third != first, "the name is one of another key"
    fail_all(rpc, third, "other worker")


def test_a_claim_brings_what_its_run_reads_first(rpc: Rpc) -> None:
    rpc.request("/api/runs", {"agent_type": "bot", "input": "go"})
    status, (claimed,) = rpc.call("leases/claim")
    assert status == 200
    assert claimed["agent"]["name"] == "bot"
    assert claimed["lease"]["snapshot"]["messages"][0]["content"] == "go"
    rpc.call("leases/fail", lease=claimed["token"])


def test_a_run_ends_and_spawns_only_runs_of_its_own(rpc: Rpc) -> None:
    token, lease = rpc.claim()
    other = rpc.request("/api/runs", {"agent_type": "bot", "input": "other"})
    assert rpc.call("subagents/end", {"runs": [other["id"]]}, lease=token) == (404, "NOT_FOUND")
    child = {"id": "run_forged", "thread": {}, "agent_type": "bot", "parent_run_id": other["id"]}
    assert rpc.call("subagents/spawn", {"new": child}, lease=token) == (400, "INVALID")
    assert rpc.call("journal/commit", {"children": [child]}, lease=token) == (400, "INVALID")
    rpc.call("leases/fail", lease=token)
    (queued,) = rpc.call("leases/claim")[1]
    rpc.call("leases/fail", lease=queued["token"])


def test_a_worker_announces_itself(rpc: Rpc) -> None:
    me = {"id": "far-1", "host": "far", "pid": 7, "version": "0.1.0", "concurrency": 3}
    assert rpc.call("leases/beat", me) == (200, None)
    seen = {each["id"]: each for each in rpc.request("/api/workers")["items"]}
    assert (seen["far-1"]["host"], seen["far-1"]["concurrency"]) == ("far", 3)
    assert rpc.call("leases/leave", {"owner": "far-1"}) == (200, None)
    assert "far-1" not in {each["id"] for each in rpc.request("/api/workers")["items"]}


def test_a_worker_cannot_speak_for_another_one(rpc: Rpc) -> None:
    me = {"id": "far-2", "host": "far", "pid": 7, "version": "0.1.0", "concurrency": 3}
    assert rpc.call("leases/beat", me)[0] == 200
    (before,) = [each for each in rpc.request("/api/workers")["items"] if each["id"] == "far-2"]
    assert rpc.call("leases/beat", me | {"host": "evil"}, scope="other worker")[0] == 200
    assert rpc.call("leases/leave", {"owner": "far-2"}, scope="other worker")[0] == 200
    (after,) = [each for each in rpc.request("/api/workers")["items"] if each["id"] == "far-2"]
    assert after == before
    rpc.call("leases/leave", {"owner": "far-2"})


def claim_for_an_hour(rpc: Rpc, owner: str) -> str:
    """Start a run and claim it for an hour; return its token."""
    rpc.request("/api/runs", {"agent_type": "bot", "input": "go"})
    status, claimed = rpc.call("leases/claim", {"owner": owner, "lease_seconds": 3600, "limit": 1})
    assert status == 200
    token: str = claimed[0]["token"]
    return token


def read_hint_once(rpc: Rpc, worker: str, *, scope: str = "worker") -> None:
    """Open the hint stream of a worker, and close it."""
    headers = {
        "Holdfast-Rpc-Version": PROTOCOL_VERSION,
        "Holdfast-Worker": worker,
        "Authorization": f"Bearer {rpc.keys[scope]}",
    }
    with rpc.client.stream("GET", "/rpc/hints", headers=headers) as stream:
        assert json.loads(next(stream.iter_lines()))["everything"] is True


def test_a_worker_that_disconnects_and_stays_away_loses_its_runs_and_no_other_does(rpc: Rpc) -> None:
    lost = claim_for_an_hour(rpc, "gone")
    others = {owner: claim_for_an_hour(rpc, owner) for owner in ("renewing", "quiet", "of another key")}
    read_hint_once(rpc, "renewing")
    read_hint_once(rpc, "of another key", scope="other worker")
    read_hint_once(rpc, "gone")
    until = monotonic() + TIMEOUT_SECONDS
    while rpc.call("journal/open", lease=lost)[0] == 200:
        assert monotonic() < until
        renewal = {"owner": "renewing", "lease_seconds": 3600, "tokens": [others["renewing"]]}
        assert len(rpc.call("leases/renew", renewal)[1]) == 1
        sleep(0.1)
    for owner, token in others.items():
        assert rpc.call("journal/open", lease=token)[0] == 200, owner
        rpc.call("leases/fail", lease=token)
    status, (again,) = claim_of(rpc, "worker")
    assert again["lease"]["run_id"] == lost.split("/")[1]
    fail_all(rpc, [again], "worker")


def claim_of(rpc: Rpc, scope: str, *pools: str) -> tuple[int, Json]:
    """Claim up to ten runs with a key."""
    body: Json = {"owner": "w", "lease_seconds": 60, "limit": 10}
    return rpc.call("leases/claim", body | ({"pools": list(pools)} if pools else {}), scope=scope)


def fail_all(rpc: Rpc, claimed: Json, scope: str) -> None:
    """End the runs of a claim."""
    for each in claimed:
        assert rpc.call("leases/fail", lease=each["token"], scope=scope)[0] == 200


def test_a_key_of_one_space_claims_nothing_of_another(rpc: Rpc) -> None:
    here = rpc.request("/api/runs", {"agent_type": "bot", "input": "go"})["id"]
    there = rpc.request("/api/spaces/tenant/runs", {"agent_type": "bot", "input": "go"})["id"]
    status, claimed = claim_of(rpc, "tenant worker")
    assert (status, [each["lease"]["run_id"] for each in claimed]) == (200, [there])
    assert claim_of(rpc, "tenant worker") == (200, [])
    fail_all(rpc, claimed, "tenant worker")
    status, claimed = claim_of(rpc, "worker")
    assert [each["lease"]["run_id"] for each in claimed] == [here]
    fail_all(rpc, claimed, "worker")


def test_a_key_of_one_pool_claims_nothing_of_another(rpc: Rpc) -> None:
    plain = rpc.request("/api/runs", {"agent_type": "bot", "input": "go"})["id"]
    gpu = rpc.request("/api/runs", {"agent_type": "trainer", "input": "go"})["id"]
    assert rpc.call("leases/check_pools", {"pools": ["gpu"]}, scope="gpu worker") == (200, None)
    for pools in (["default"], ["gpu", "default"]):
        assert rpc.call("leases/check_pools", {"pools": pools}, scope="gpu worker") == (403, "FORBIDDEN")
        assert claim_of(rpc, "gpu worker", *pools) == (403, "FORBIDDEN")
    assert claim_of(rpc, "gpu worker") == (403, "FORBIDDEN"), "the default pool is not its own"
    assert claim_of(rpc, "gpu worker", "No Pool") == (400, "INVALID")
    status, claimed = claim_of(rpc, "gpu worker", "gpu")
    assert (status, [each["lease"]["run_id"] for each in claimed]) == (200, [gpu])
    fail_all(rpc, claimed, "gpu worker")
    status, claimed = claim_of(rpc, "worker")
    assert [each["lease"]["run_id"] for each in claimed] == [plain]
    fail_all(rpc, claimed, "worker")


@pytest.mark.parametrize("way", ["children", "follow_ups", "spawn"])
def test_a_worker_cannot_choose_the_pool_and_version_of_a_run(rpc: Rpc, way: str) -> None:
    token, lease = rpc.claim()
    new: Json = {
        "id": f"run_of_{way}",
        "thread": {},
        "agent_type": "trainer",
        "pool": "default",
        "agent_version": "0" * 64,
    }
    if way != "follow_ups":
        new["parent_run_id"] = lease["run_id"]
    if way == "spawn":
        assert rpc.call("subagents/spawn", {"new": new}, lease=token)[0] == 200
    else:
        assert rpc.call("journal/commit", {way: [new]}, lease=token)[0] == 200
    assert claim_of(rpc, "worker") == (200, [])
    status, claimed = claim_of(rpc, "worker", "gpu")
    assert [each["lease"]["run_id"] for each in claimed] == [f"run_of_{way}"]
    assert claimed[0]["lease"]["run"]["agent_version"] not in (None, "0" * 64)
    fail_all(rpc, claimed, "worker")
    rpc.call("leases/fail", lease=token)
    fail_all(rpc, claim_of(rpc, "worker", "gpu", "default")[1], "worker")


def test_a_worker_of_another_version_is_told_so(rpc: Rpc) -> None:
    for version in ("0", "1", "3", ""):
        assert rpc.call("leases/queue_state", version=version) == (400, "INVALID")


def test_bad_requests_are_refused(rpc: Rpc) -> None:
    assert rpc.call("nothing/here", lease="x") == (404, "NOT_FOUND")
    assert rpc.call("leases/steal") == (404, "NOT_FOUND")
    assert rpc.call("leases/claim", {"owner": 5, "lease_seconds": 60, "limit": 1}) == (400, "INVALID")
    for seconds in (0, -1, 3601, 1e300):
        assert rpc.call("leases/claim", {"owner": "w", "lease_seconds": seconds, "limit": 1}) == (400, "INVALID")
        assert rpc.call("leases/renew", {"owner": "w", "lease_seconds": seconds, "tokens": []}) == (400, "INVALID")
    assert rpc.call("leases/claim", {"owner": "w", "lease_seconds": 60, "limit": 100_000}) == (400, "INVALID")
    headers = {"Holdfast-Rpc-Version": PROTOCOL_VERSION, "Authorization": f"Bearer {rpc.keys['worker']}"}
    for content in (b"{", b"[]", b"\xff", b"null"):
        assert rpc.client.post("/rpc/leases/claim", content=content, headers=headers).status_code == 400
    assert rpc.client.get("/rpc/leases/claim", headers=headers).status_code == 404


def minimal_body(method: str, run: str = "run_x") -> dict[str, Json]:
    """Return the smallest body that a method accepts under a lease of a run."""
    given: dict[str, dict[str, Json]] = {
        "journal/history": {"before": 1, "limit": 1},
        "journal/charge_ended": {"usage": {}},
        "journal/next_task_id": {"step": f"{run}.1"},
        "leases/fail": {"error": {"code": "INTERNAL", "message": "x"}},
        "library/file": {"file": "file_x"},
        "library/file_info": {"file": "file_x"},
        "library/artifact": {"artifact": "art_x"},
        "library/skill_file": {"skill": "skl_x", "path": "x"},
        "library/skill_version": {"skill": "skl_x", "version": 1},
        "memory/recall": {"query": {"text": "x"}},
        "memory/memories": {"ids": []},
        "memory/equal": {"text": "x"},
        "memory/messages": {"names": []},
        "memory/conversation": {"runs": []},
        "memory/provenance": {"memory": "mem_x"},
        "memory/walk": {"start": "x", "max_depth": 1, "relation_types": None, "limit": 1},
        "memory/timeline": {"query": {}},
        "memory/file": {"path": {"name": "MEMORY.md"}},
        "memory/change_file": {"path": {"name": "MEMORY.md"}, "change": {"text": "x"}},
        "memory/search_files": {"query": "x", "owners": [None], "limit": 1},
        "subagents/spawn": {"new": {"id": "run_x", "thread": {}, "agent_type": "bot"}},
        "subagents/subscribe": {"target": "run_x"},
        "subagents/taint": {"run": "run_x"},
        "subagents/end": {"runs": []},
        "remote/call": {"name": "x", "arguments": {}, "key": f"{run}.1"},
        "remote/trust": {"name": "x", "digest": "d"},
        "remote/resume": {
            "name": "x",
            "arguments": {},
            "key": f"{run}.1",
            "interrupt": {"message": "m", "response_schema": {}, "state": {}},
            "response": None,
        },
    }
    return given.get(method, {})
