"""The tools that send messages to agents and start tasks: the runs that they create, and their results."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.limits import Limits
from holdfast.domain.permission import RIGHTS_VALUE
from holdfast.domain.run import Mode, Run, RunError, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.tools.builtin.agents import (
    AgentMessageArguments,
    AgentSendArguments,
    agent_message,
    agent_send,
    agent_spawn,
    conversation_thread_id,
)
from holdfast.tools.builtin.tasks import (
    SPAWNED_TASKS_VALUE,
    TaskSpawnArguments,
    TaskSubscribeArguments,
    task_create,
    task_spawn,
    task_subscribe,
)
from holdfast.tools.child_runs import WorkspaceSpawner
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import ChildEnded, ChildWait, Preempted, TaskEnded, TaskWait, TimerFired, ToolResult
from holdfast.tools.typed_tool import TypedResumableTool, TypedTool
from tests.support.calls import KEY, a_call, a_run, an_agent
from tests.unit.tools.builtin.fake_subagents import FakeSubagents

CHILD: Final = RunId(derived_id("run", key=KEY))
MESSAGE: Final = {"agent": "reader", "message": "Well?"}
TASK: Final = {"agent": "reader", "input": "Read it."}
THREAD: Final = conversation_thread_id(ThreadId("thr_1"), "reader")


async def agents(lease: Lease) -> list[Agent]:
    return [an_agent("reader", limits=Limits(max_iterations=7)), an_agent("writer")]


def message(subagents: FakeSubagents) -> TypedResumableTool[AgentMessageArguments]:
    return agent_message(WorkspaceSpawner(agents), subagents)


def send(subagents: FakeSubagents) -> TypedTool[AgentSendArguments]:
    return agent_send(WorkspaceSpawner(agents), subagents)


def spawn_task(subagents: FakeSubagents) -> TypedTool[TaskSpawnArguments]:
    return task_spawn(WorkspaceSpawner(agents), subagents)


def subscribe(*tasks: Run) -> tuple[FakeSubagents, TypedResumableTool[TaskSubscribeArguments]]:
    subagents = FakeSubagents(tasks=tasks)
    return subagents, task_subscribe(subagents)


def limited(**limits: Any) -> Run:
    return replace(a_run(), limits=Limits(**limits))


async def test_a_message_starts_a_run_in_the_conversation_with_the_agent_and_waits() -> None:
    subagents = FakeSubagents()
    outcome = await message(subagents).run(a_call(), dict(MESSAGE))
    (spawned,) = subagents.spawned
    assert outcome == ToolResult(wait=ChildWait(run_id=CHILD))
    assert (spawned.id, spawned.parent_run_id, spawned.agent_type, subagents.awaited) == (
        CHILD,
        "run_1",
        "reader",
        [True],
    )
    assert isinstance(spawned.thread, NewThread) and spawned.thread.id == THREAD
    assert [each["agent"] for each in spawned.values[RIGHTS_VALUE]] == ["writer"]


async def test_a_thread_and_an_agent_have_one_conversation() -> None:
    assert conversation_thread_id(ThreadId("thr_1"), "reader") == THREAD
    assert (
        len(
            {
                THREAD,
                conversation_thread_id(ThreadId("thr_2"), "reader"),
                conversation_thread_id(ThreadId("thr_1"), "writer"),
            }
        )
        == 3
    )


@pytest.mark.parametrize("make", [message, send])
async def test_a_message_can_name_a_thread(make: Any) -> None:
    subagents = FakeSubagents()
    await make(subagents).run(a_call(), {**MESSAGE, "thread_id": "thr_9"})
    assert subagents.spawned[0].thread == "thr_9"


async def test_agent_send_does_not_wait() -> None:
    subagents = FakeSubagents()
    outcome = await send(subagents).run(a_call(), dict(MESSAGE))
    assert outcome.content == {"run_id": CHILD, "thread_id": THREAD, "status": "queued"}
    assert (outcome.wait, subagents.awaited) == (None, [False])
    (event,) = outcome.events
    assert (event.run_id, event.thread_id) == (CHILD, THREAD)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (ChildEnded(run_id=CHILD, status=RunStatus.COMPLETED, output={"n": 1}), ToolResult(content={"n": 1})),
        (
            ChildEnded(run_id=CHILD, status=RunStatus.FAILED, error=RunError(code="X", message="no")),
            ToolResult(content="agent `reader` failed: X: no", failed=True),
        ),
        (
            Preempted(),
            ToolResult(
                content={
                    "run_id": CHILD,
                    "note": "it goes on in the background: a person said something meanwhile",
                }
            ),
        ),
    ],
)
async def test_the_end_of_the_run_is_the_result_of_the_message(cause: Any, expected: ToolResult) -> None:
    assert await message(FakeSubagents()).resume(a_call(), dict(MESSAGE), cause) == expected


async def test_an_unexpected_cause_is_refused() -> None:
    with pytest.raises(Conflict, match="`agent_message` does not wait for TimerFired"):
        await message(FakeSubagents()).resume(a_call(), dict(MESSAGE), TimerFired())


async def test_an_independent_task_has_no_parent_but_its_rights() -> None:
    subagents = FakeSubagents()
    outcome = await spawn_task(subagents).run(a_call(), dict(TASK))
    (spawned,) = subagents.spawned
    assert (spawned.id, spawned.parent_run_id, spawned.mode) == (CHILD, None, Mode.TASK)
    assert [each["agent"] for each in spawned.values[RIGHTS_VALUE]] == ["writer"]
    assert outcome.content == {"task_id": CHILD, "status": "queued"}
    assert outcome.values == {SPAWNED_TASKS_VALUE: {"run_id": "run_1", "tasks": [CHILD]}}


async def test_the_tasks_of_another_run_do_not_count() -> None:
    earlier: dict[str, Json] = {SPAWNED_TASKS_VALUE: {"run_id": "run_0", "tasks": ["a", "b"]}}
    outcome = await spawn_task(FakeSubagents()).run(a_call(values=earlier, run=limited(max_children=1)), dict(TASK))
    assert outcome.values[SPAWNED_TASKS_VALUE]["tasks"] == [CHILD]


async def test_a_run_subscribes_to_a_task_or_waits_for_it() -> None:
    subagents, tool = subscribe(a_run(id="run_9"))
    result = await tool.run(a_call(), {"task_id": "run_9"})
    assert result == ToolResult(content={"task_id": "run_9", "status": "running", "subscribed": True})
    assert await tool.run(a_call(), {"task_id": "run_9", "wait": True}) == ToolResult(
        wait=TaskWait(run_id=RunId("run_9"))
    )
    assert subagents.subscribed == [("run_9", None), ("run_9", KEY)]


async def test_an_ended_task_is_returned_at_once_and_a_running_one_when_it_ends() -> None:
    failed = replace(a_run(id="run_9"), status=RunStatus.FAILED, error=RunError(code="X", message="no"))
    _, tool = subscribe(failed)
    expected = ToolResult(content="task `run_9` failed: X: no", failed=True)
    assert await tool.run(a_call(), {"task_id": "run_9", "wait": True}) == expected
    cause = TaskEnded(run_id=RunId("run_9"), status=RunStatus.COMPLETED, output="done")
    assert await tool.resume(a_call(), {"task_id": "run_9"}, cause) == ToolResult(content="done")


async def test_the_output_of_a_tainted_task_taints_its_reader() -> None:
    done = replace(a_run(id="run_9"), status=RunStatus.COMPLETED, output="done")
    for taint, untrusted in (((), None), (("web:example.com",), "run:run_9")):
        tool = task_subscribe(FakeSubagents(tasks=[done], taint=taint))
        assert await tool.run(a_call(), {"task_id": "run_9"}) == ToolResult(content="done", untrusted=untrusted)


MAKERS: Final[dict[str, Any]] = {
    "agent_message": (message, MESSAGE),
    "agent_send": (send, MESSAGE),
    "agent_spawn": (lambda subagents: agent_spawn(WorkspaceSpawner(agents), subagents), TASK),
    "task_create": (lambda subagents: task_create(WorkspaceSpawner(agents), subagents), TASK),
    "task_spawn": (spawn_task, TASK),
}


@pytest.mark.parametrize("name", MAKERS)
async def test_a_child_beyond_the_depth_limit_is_refused(name: str) -> None:
    make, arguments = MAKERS[name]
    above: dict[str, Json] = {RIGHTS_VALUE: [{"agent": "a", "permissions": {}}, {"agent": "b", "permissions": {}}]}
    subagents = FakeSubagents()
    refused = await with_standard_middleware(make(subagents)).run(
        a_call(values=above, run=limited(max_depth=2)), dict(arguments)
    )
    assert refused.content.startswith("SPAWN_LIMIT: `max_depth` is 2")
    allowed = await with_standard_middleware(make(subagents)).run(
        a_call(values=above, run=limited(max_depth=3)), dict(arguments)
    )
    assert not allowed.failed


@pytest.mark.parametrize("name", sorted(MAKERS.keys() - {"task_spawn"}))
async def test_active_and_pending_children_count(name: str) -> None:
    make, arguments = MAKERS[name]
    call = replace(a_call(run=limited(max_children=3)), pending_children=1)
    assert not (await with_standard_middleware(make(FakeSubagents(active=1))).run(call, dict(arguments))).failed
    refused = await with_standard_middleware(make(FakeSubagents(active=2))).run(call, dict(arguments))
    assert refused.content.startswith("SPAWN_LIMIT: `max_children` is 3")


@pytest.mark.parametrize("name", MAKERS)
async def test_a_child_inherits_the_depth_limit(name: str) -> None:
    make, arguments = MAKERS[name]
    subagents = FakeSubagents()
    outcome = await make(subagents).run(a_call(run=limited(max_depth=4)), dict(arguments))
    (made,) = subagents.spawned or list(outcome.children)
    assert made.limits == Limits(max_iterations=7, max_depth=4)


async def test_a_run_with_a_budget_starts_no_independent_task() -> None:
    call = a_call()
    call = replace(call, lease=replace(call.lease, budget_keys=(1,)))
    refused = await with_standard_middleware(spawn_task(FakeSubagents())).run(call, dict(TASK))
    assert refused.content.startswith("CONFLICT: this run has a budget")


@pytest.mark.parametrize("task", ["", "not an id", "x" * 200])
async def test_an_invalid_task_id_is_refused(task: str) -> None:
    refused = await with_standard_middleware(subscribe()[1]).run(a_call(), {"task_id": task})
    assert refused.failed and refused.content.startswith("INVALID")
