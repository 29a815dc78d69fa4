from typing import Any, Final

import pytest

from holdfast.domain.agent import Agent, ModeSettings
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict
from holdfast.domain.events.custom import ChildChanged
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import RunId, ThreadId, ToolCallId
from holdfast.domain.limits import Limits
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun, check_new_run
from holdfast.domain.run import Mode, Priority, RunError, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.domain.worker import DEFAULT_POOL
from holdfast.tools.builtin.agents import AgentSpawnArguments, agent_spawn
from holdfast.tools.builtin.tasks import TaskCreateArguments, task_create
from holdfast.tools.child_runs import MAX_CHILD_INPUT_CHARS, WorkspaceSpawner
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.permissions.policy import values_for_child
from holdfast.tools.tool import ChildEnded, ChildWait, Preempted, TimerFired, ToolResult
from holdfast.tools.typed_tool import TypedResumableTool, TypedTool
from tests.support.calls import KEY, a_call, a_run, an_agent
from tests.unit.tools.builtin.fake_subagents import FakeSubagents

CHILD: Final = RunId(derived_id("run", key=KEY))
THREAD: Final = ThreadId(derived_id("thr", key=KEY))
LIMITS: Final = Limits(max_iterations=7)
ARGUMENTS: Final = {"agent": "reader", "input": "Read it.\nAll of it."}
ENDED: Final = {"agent": "reader", "status": RunStatus.COMPLETED}


async def agents(lease: Lease) -> list[Agent]:
    return [
        an_agent("reader", limits=LIMITS),
        an_agent("poet", chat=ModeSettings(enabled=False), task=ModeSettings(enabled=False)),
    ]


def spawn() -> TypedResumableTool[AgentSpawnArguments]:
    return agent_spawn(WorkspaceSpawner(agents), FakeSubagents())


def create() -> TypedTool[TaskCreateArguments]:
    return task_create(WorkspaceSpawner(agents), FakeSubagents())


def the_child(mode: Mode = Mode.CHAT, priority: Priority = Priority.NORMAL) -> NewRun:
    return NewRun(
        id=CHILD,
        thread=NewThread(id=THREAD, title="Read it.", agent_type="reader"),
        messages=[NewMessage(role=Role.USER, content="Read it.\nAll of it.")],
        input="Read it.\nAll of it.",
        mode=mode,
        agent_type="reader",
        model="scripted:reader.json",
        parent_run_id=RunId("run_1"),
        priority=priority,
        pool=DEFAULT_POOL,
        limits=LIMITS,
        values=values_for_child(a_call().agent, {}, folder="files"),
        created_by="ada",
    )


def began() -> ChildChanged:
    return ChildChanged(
        run_id=CHILD,
        thread_id=THREAD,
        status=RunStatus.QUEUED,
        agent_type="reader",
        tool_call_id=ToolCallId("call_1"),
    )


async def test_a_child_has_ids_from_the_call_key_and_is_waited_for() -> None:
    outcome = await spawn().run(a_call(), dict(ARGUMENTS))
    assert outcome == ToolResult(children=[the_child()], wait=ChildWait(run_id=CHILD))
    check_new_run(outcome.children[0])


async def test_without_wait_the_child_runs_in_the_background() -> None:
    outcome = await spawn().run(a_call(), {**ARGUMENTS, "wait": False})
    assert outcome == ToolResult(
        content={"run_id": CHILD, "thread_id": THREAD, "status": "queued"}, children=[the_child()], events=[began()]
    )


async def test_a_child_inherits_priority_and_mode() -> None:
    call = a_call(run=a_run(mode=Mode.API, priority=Priority.HIGH))
    assert (await spawn().run(call, dict(ARGUMENTS))).children == [the_child(Mode.API, Priority.HIGH)]


async def test_the_child_of_a_daemon_is_a_task() -> None:
    call = a_call(run=a_run(mode=Mode.DAEMON))
    assert (await spawn().run(call, dict(ARGUMENTS))).children == [the_child(Mode.TASK)]


@pytest.mark.parametrize("output", ["done", {"found": 3}, None])
async def test_the_output_of_the_child_is_the_result(output: Json) -> None:
    cause = ChildEnded(run_id=CHILD, status=RunStatus.COMPLETED, output=output)
    assert await spawn().resume(a_call(), dict(ARGUMENTS), cause) == ToolResult(content=output)


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (RunStatus.FAILED, RunError(code="ITERATION_LIMIT", message="too many"), "failed: ITERATION_LIMIT: too many"),
        (RunStatus.FAILED, None, "failed"),
        (RunStatus.CANCELLED, None, "was cancelled"),
    ],
)
async def test_a_child_that_did_not_complete_is_a_failed_result(
    status: RunStatus, error: RunError | None, message: str
) -> None:
    cause = ChildEnded(run_id=CHILD, status=status, error=error)
    outcome = await spawn().resume(a_call(), dict(ARGUMENTS), cause)
    assert outcome == ToolResult(content=f"agent `reader` {message}", failed=True)


async def test_a_preempting_message_leaves_the_child_in_the_background() -> None:
    outcome = await spawn().resume(a_call(), dict(ARGUMENTS), Preempted())
    assert (outcome.content["run_id"], outcome.content["thread_id"], outcome.failed) == (CHILD, THREAD, False)
    assert "goes on in the background" in outcome.content["note"]


async def test_an_unexpected_cause_is_refused() -> None:
    with pytest.raises(Conflict, match="`agent_spawn` does not wait for TimerFired"):
        await spawn().resume(a_call(), dict(ARGUMENTS), TimerFired())


async def test_a_task_runs_in_the_background() -> None:
    outcome = await create().run(a_call(), {**ARGUMENTS, "priority": "low"})
    assert outcome == ToolResult(
        content={"task_id": CHILD, "status": "queued"},
        children=[the_child(Mode.TASK, Priority.LOW)],
        events=[began()],
    )
    assert (await create().run(a_call(), dict(ARGUMENTS))).children == [the_child(Mode.TASK)]


@pytest.mark.parametrize("make", [spawn, create])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"agent": "raeder"}, "NOT_FOUND: there is no agent `raeder` that this run may spawn: did you mean `reader`?"),
        ({"agent": "poet"}, "CONFLICT: agent `poet` is not enabled for "),
        ({"input": ""}, "INVALID: "),
        ({"input": "a\x00"}, "INVALID: `input` may not contain a NUL character"),
        ({"input": "x" * (MAX_CHILD_INPUT_CHARS + 1)}, "INVALID: "),
    ],
)
async def test_an_invalid_child_is_refused(make: Any, wrong: dict[str, Json], message: str) -> None:
    outcome = await with_standard_middleware(make()).run(a_call(), {**ARGUMENTS, **wrong})
    assert outcome.failed
    assert outcome.content.startswith(message)
    assert outcome.children == ()


async def test_a_long_input_gives_a_short_title() -> None:
    (child,) = (await spawn().run(a_call(), {**ARGUMENTS, "input": "word " * 100})).children
    assert isinstance(child.thread, NewThread)
    assert len(child.thread.title or "") == 80
