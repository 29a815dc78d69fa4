"""Tools that talk to other agents and begin tasks: what they ask of the peers of a run, and what comes of it."""

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
from tests.unit.tools.builtin.office import Office

CHILD: Final = RunId(derived_id("run", key=KEY))
SAID: Final = {"agent": "reader", "message": "Well?"}
TASK: Final = {"agent": "reader", "input": "Read it."}
THREAD: Final = conversation_thread_id(ThreadId("thr_1"), "reader")


async def agents(lease: Lease) -> list[Agent]:
    return [an_agent("reader", limits=Limits(max_iterations=7)), an_agent("writer")]


def message(office: Office) -> TypedResumableTool[AgentMessageArguments]:
    return agent_message(WorkspaceSpawner(agents), office)


def send(office: Office) -> TypedTool[AgentSendArguments]:
    return agent_send(WorkspaceSpawner(agents), office)


def spawn_task(office: Office) -> TypedTool[TaskSpawnArguments]:
    return task_spawn(WorkspaceSpawner(agents), office)


def subscribe(*tasks: Run) -> tuple[Office, TypedResumableTool[TaskSubscribeArguments]]:
    office = Office(tasks=tasks)
    return office, task_subscribe(office)


def limited(**limits: int) -> Run:
    return replace(a_run(), limits=Limits(**limits))


async def test_a_message_begins_a_run_on_the_conversation_with_the_agent_and_waits_for_it() -> None:
    office = Office()
    outcome = await message(office).run(a_call(), dict(SAID))
    (begun,) = office.begun
    assert outcome == ToolResult(wait=ChildWait(run_id=CHILD))
    assert (begun.id, begun.parent_run_id, begun.agent_type, office.awaited) == (CHILD, "run_1", "reader", [True])
    assert isinstance(begun.thread, NewThread) and begun.thread.id == THREAD
    assert [each["agent"] for each in begun.values[RIGHTS_VALUE]] == ["writer"]


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
async def test_a_thread_that_is_named_is_spoken_to(make: Any) -> None:
    office = Office()
    await make(office).run(a_call(), {**SAID, "thread_id": "thr_9"})
    assert office.begun[0].thread == "thr_9"


async def test_what_is_sent_is_not_waited_for() -> None:
    office = Office()
    outcome = await send(office).run(a_call(), dict(SAID))
    assert outcome.content == {"run_id": CHILD, "thread_id": THREAD, "status": "queued"}
    assert (outcome.wait, office.awaited) == (None, [False])
    (event,) = outcome.events
    assert (event.run_id, event.thread_id) == (CHILD, THREAD)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arrival", "expected"),
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
async def test_what_came_of_a_message_is_the_result(arrival: Any, expected: ToolResult) -> None:
    assert await message(Office()).resume(a_call(), dict(SAID), arrival) == expected


async def test_nothing_else_is_waited_for() -> None:
    with pytest.raises(Conflict, match="`agent_message` does not wait for TimerFired"):
        await message(Office()).resume(a_call(), dict(SAID), TimerFired())


async def test_a_task_on_its_own_has_no_parent_but_its_rights() -> None:
    office = Office()
    outcome = await spawn_task(office).run(a_call(), dict(TASK))
    (begun,) = office.begun
    assert (begun.id, begun.parent_run_id, begun.mode) == (CHILD, None, Mode.TASK)
    assert [each["agent"] for each in begun.values[RIGHTS_VALUE]] == ["writer"]
    assert outcome.content == {"task_id": CHILD, "status": "queued"}
    assert outcome.values == {SPAWNED_TASKS_VALUE: {"run_id": "run_1", "tasks": [CHILD]}}


async def test_the_tasks_of_another_run_do_not_count() -> None:
    earlier: dict[str, Json] = {SPAWNED_TASKS_VALUE: {"run_id": "run_0", "tasks": ["a", "b"]}}
    outcome = await spawn_task(Office()).run(a_call(values=earlier, run=limited(max_children=1)), dict(TASK))
    assert outcome.values[SPAWNED_TASKS_VALUE]["tasks"] == [CHILD]


async def test_a_run_is_told_of_a_task_or_waits_for_it() -> None:
    office, tool = subscribe(a_run(id="run_9"))
    told = await tool.run(a_call(), {"task_id": "run_9"})
    assert told == ToolResult(content={"task_id": "run_9", "status": "running", "subscribed": True})
    assert await tool.run(a_call(), {"task_id": "run_9", "wait": True}) == ToolResult(
        wait=TaskWait(run_id=RunId("run_9"))
    )
    assert office.subscribed == [("run_9", None), ("run_9", KEY)]


async def test_a_task_that_has_ended_is_told_at_once_and_one_that_ends_then() -> None:
    failed = replace(a_run(id="run_9"), status=RunStatus.FAILED, error=RunError(code="X", message="no"))
    _, tool = subscribe(failed)
    expected = ToolResult(content="task `run_9` failed: X: no", failed=True)
    assert await tool.run(a_call(), {"task_id": "run_9", "wait": True}) == expected
    arrival = TaskEnded(run_id=RunId("run_9"), status=RunStatus.COMPLETED, output="done")
    assert await tool.resume(a_call(), {"task_id": "run_9"}, arrival) == ToolResult(content="done")


async def test_what_a_tainted_task_said_taints_who_reads_it() -> None:
    done = replace(a_run(id="run_9"), status=RunStatus.COMPLETED, output="done")
    for taint, untrusted in (((), None), (("web:example.com",), "run:run_9")):
        tool = task_subscribe(Office(tasks=[done], taint=taint))
        assert await tool.run(a_call(), {"task_id": "run_9"}) == ToolResult(content="done", untrusted=untrusted)


MAKERS: Final[dict[str, Any]] = {
    "agent_message": (message, SAID),
    "agent_send": (send, SAID),
    "agent_spawn": (lambda office: agent_spawn(WorkspaceSpawner(agents), office), TASK),
    "task_create": (lambda office: task_create(WorkspaceSpawner(agents), office), TASK),
    "task_spawn": (spawn_task, TASK),
}


@pytest.mark.parametrize("name", MAKERS)
async def test_nobody_is_had_too_deep_below_others(name: str) -> None:
    make, arguments = MAKERS[name]
    above: dict[str, Json] = {RIGHTS_VALUE: [{"agent": "a", "permissions": {}}, {"agent": "b", "permissions": {}}]}
    office = Office()
    refused = await with_standard_middleware(make(office)).run(
        a_call(values=above, run=limited(max_depth=2)), dict(arguments)
    )
    assert refused.content.startswith("SPAWN_LIMIT: `max_depth` is 2")
    allowed = await with_standard_middleware(make(office)).run(
        a_call(values=above, run=limited(max_depth=3)), dict(arguments)
    )
    assert not allowed.failed


@pytest.mark.parametrize("name", sorted(MAKERS.keys() - {"task_spawn"}))
async def test_those_at_work_and_those_about_to_be_count(name: str) -> None:
    make, arguments = MAKERS[name]
    call = replace(a_call(run=limited(max_children=3)), pending_children=1)
    assert not (await with_standard_middleware(make(Office(at_work=1))).run(call, dict(arguments))).failed
    refused = await with_standard_middleware(make(Office(at_work=2))).run(call, dict(arguments))
    assert refused.content.startswith("SPAWN_LIMIT: `max_children` is 3")


@pytest.mark.parametrize("name", MAKERS)
async def test_a_child_goes_no_deeper_than_its_parent_may(name: str) -> None:
    make, arguments = MAKERS[name]
    office = Office()
    outcome = await make(office).run(a_call(run=limited(max_depth=4)), dict(arguments))
    (made,) = office.begun or list(outcome.children)
    assert made.limits == Limits(max_iterations=7, max_depth=4)


async def test_where_there_is_a_budget_no_task_is_on_its_own() -> None:
    call = a_call()
    call = replace(call, lease=replace(call.lease, budget_keys=(1,)))
    refused = await with_standard_middleware(spawn_task(Office())).run(call, dict(TASK))
    assert refused.content.startswith("CONFLICT: this run has a budget")


@pytest.mark.parametrize("task", ["", "not an id", "x" * 200])
async def test_what_is_no_id_names_no_task(task: str) -> None:
    refused = await with_standard_middleware(subscribe()[1]).run(a_call(), {"task_id": task})
    assert refused.failed and refused.content.startswith("INVALID")
