"""`RemoteTools`: tools that the control plane lists and calls under a lease."""

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import LeaseLost, NotFound
from holdfast.domain.run import Move, RunError, RunStatus
from holdfast.domain.tool import ToolInterrupt, check_tool_spec
from holdfast.store.store import Store
from tests.builders import FIRST, MINUTE, finish, new_run, new_thread
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import child_of, commit, running
from tests.conformance.runtime.implementations import Runtime, key_of


async def test_the_tools_of_a_run_are_listed_by_name(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go")
    names = [check_tool_spec(spec).name for spec in (await runtime.remote.list(lease)).tools]
    assert names == sorted(names)
    assert "task_status" in names


async def test_a_tool_replies_to_repeated_calls(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go")
    child = await child_of(store, lease.run_id, "help", agent_type="kid")
    replies = [
        await runtime.remote.call(lease, "task_status", {"task_id": child.id}, key=key_of(lease)) for _ in range(2)
    ]
    assert [reply.content for reply in replies] == [{"task_id": child.id, "status": "queued", "agent": "kid"}] * 2
    assert not any(reply.failed for reply in replies)


async def test_a_task_reports_its_result(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go")
    children = [await child_of(store, lease.run_id, name) for name in ("one", "two")]
    done, failed = await store.leases.claim(FIRST, lease=MINUTE, limit=2)
    await finish(store, done, "all well")
    why = RunError(code="NO_LUCK", message="none at all")
    await commit(store, failed, move=Move(to=RunStatus.FAILED, error=why))
    told = [await runtime.remote.call(lease, "task_status", {"task_id": run.id}, key=key_of(lease)) for run in children]
    assert [reply.content["status"] for reply in told] == ["completed", "failed"]
    assert told[0].content["output"] == "all well"
    assert told[1].content["error"] == {"code": "NO_LUCK", "message": "none at all"}


@pytest.mark.parametrize("arguments", [{}, {"task_id": 7}, {"task_id": "run_none"}, {"task_id": "x", "more": 1}])
async def test_a_failed_tool_reports_that_in_its_reply(
    store: Store, runtime: Runtime, arguments: dict[str, Json]
) -> None:
    lease = await running(store, "go")
    reply = await runtime.remote.call(lease, "task_status", arguments, key=key_of(lease))
    assert reply.failed
    assert str(reply.content).startswith(("INVALID: ", "NOT_FOUND: "))


async def test_a_run_of_another_space_is_not_found_by_a_tool(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go")
    foreign = await new_run(store, OTHER, await new_thread(store, OTHER), "secret")
    reply = await runtime.remote.call(lease, "task_status", {"task_id": foreign.id}, key=key_of(lease))
    missing = await runtime.remote.call(lease, "task_status", {"task_id": "run_none"}, key=key_of(lease))
    assert reply.failed
    assert str(reply.content).replace(foreign.id, "run_none") == missing.content


async def test_a_tool_that_is_not_listed_is_not_found(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go")
    with pytest.raises(NotFound):
        await runtime.remote.call(lease, "tusk_status", {}, key=key_of(lease))


async def test_a_lost_lease_calls_no_tool(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go")
    await store.runs.end(SPACE, lease.run_id)
    with pytest.raises(LeaseLost):
        await runtime.remote.call(lease, "task_status", {"task_id": lease.run_id}, key=key_of(lease))


async def test_a_tool_without_an_interrupt_cannot_be_resumed(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go")
    for name in ("task_status", "tusk_status"):
        with pytest.raises(NotFound):
            await runtime.remote.resume(
                lease, name, {}, key=key_of(lease), interrupt=ToolInterrupt(message="who?"), response="Ada"
            )


async def test_a_name_that_cannot_be_a_tool_of_the_run_is_not_trusted(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go")
    for name in ("tusk_status", "mcp__none__look"):
        with pytest.raises(NotFound):
            await runtime.remote.trust(lease, name, "digest")
