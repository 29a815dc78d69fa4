"""The workloads of victims: every kind of write of the store."""

from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, TypeAlias

import pytest

from holdfast.domain.artifact import ArtifactType, NewArtifact, NewFile
from holdfast.domain.commit import Commit
from holdfast.domain.context import ContextSnapshot, SentSegment, text_digest
from holdfast.domain.errors import InboxNotEmpty
from holdfast.domain.events import (
    Event,
    RunFinished,
    StateSnapshot,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from holdfast.domain.events.messages import AgUiInterrupt, InterruptOutcome
from holdfast.domain.ids import ArtifactId, FileId, InterruptId, MessageId, RunId, ThreadId, TimerId, ToolCallId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import InterruptKind, InterruptResponse, NewInterrupt
from holdfast.domain.limits import Limits, Usage
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.run import Move, RunError, RunStatus, WaitsFor
from holdfast.domain.space import NewApiKey, Scope, SpacePatch
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.domain.thread import NewThread, ThreadPatch
from holdfast.domain.timer import NewTimer, TimerClaim
from tests.builders import assistant, call, result, text_events, user
from tests.scenario.stage import FAR_OFF, LEASE, WORKER, Stage, Worker

Play: TypeAlias = Callable[[Stage], Coroutine[Any, Any, None]]

SECOND: Final = timedelta(seconds=1)
NO_LIMITS: Final = Limits()
USAGE: Final = Usage(input_tokens=10, output_tokens=5, cost_usd=0.01)
DONE: Final = Move(to=RunStatus.COMPLETED, output={"ok": True})


async def conversation(stage: Stage) -> None:
    """Run a conversation with tools, enqueue the next run behind it, and fail that one."""
    store, space = stage.store, stage.space
    await stage.do(store.spaces.create(space, name="Acme"))
    thread = (await stage.do(store.threads.create(space, NewThread(id=ThreadId("talk"), title="talk")))).id
    async with stage.queue:
        begin = NewRun(
            id=RunId("run-1"),
            thread=thread,
            messages=[user("hello", id="m1"), user("are you there?", id="m2")],
            values={"state": {"n": 0}},
            idempotency_key="key-1",
        )
        await stage.do(store.runs.create(space, begin))
        worker = await stage.claim()
    await worker.commit(*_start_events("a1", "I look"), steps=[_model(1)], contexts=[_context_snapshot(1)])
    await worker.commit(
        *_end_events("a1"),
        *_tool_call_events("a1", "c1", "c2"),
        StateSnapshot(snapshot={"n": 1}),
        messages=[assistant("I look", call("c1"), call("c2"), id="a1")],
        steps=[_model(1, StepState.DONE), _tool(2, "c1", effectful=True), _tool(3, "c2")],
        values={"state": {"n": 1}, "plan": ["look", "tell"]},
        usage=USAGE,
        iterations=1,
    )
    await worker.commit(
        _result_events("c1"), messages=[result("c1")], steps=[_tool(2, "c1", StepState.DONE, effectful=True)]
    )
    next_run = NewRun(id=RunId("run-2"), thread=thread, messages=[user("and then?", id="m3")])
    await stage.do(store.runs.create(space, next_run))
    await worker.commit(_result_events("c2"), messages=[result("c2")], steps=[_tool(3, "c2", StepState.DONE)])
    async with stage.queue:
        await worker.commit(
            *text_events("done", id="a2"), end=worker.finished(), messages=[assistant("done")], move=DONE
        )
        follower = await stage.claim()
    error = RunError(code="BROKEN", message="it broke")
    await follower.commit(end=follower.failed(), move=Move(to=RunStatus.FAILED, error=error), values={"todo": []})


async def waiting(stage: Stage) -> None:
    """Ask a person, wait, continue with the answer, and steer, all with a deadline."""
    store, space = stage.store, stage.space
    await stage.do(store.spaces.create(space, name="Acme"))
    run, interrupt, spare = RunId("asks"), InterruptId("question"), InterruptId("spare")
    async with stage.queue:
        await stage.do(store.runs.create(space, _new_thread_run(run, limits=Limits(max_duration_seconds=3600))))
        worker = await stage.claim()
    outcome = InterruptOutcome(interrupts=[AgUiInterrupt(id=interrupt, reason="input_required")])
    await worker.commit(
        *text_events("may I?", id="a1"),
        end=RunFinished(thread_id=worker.lease.thread_id, run_id=run, outcome=outcome),
        messages=[assistant("may I?", id="a1")],
        interrupts=[NewInterrupt(id=name, kind=InterruptKind.INPUT, message="may I?") for name in (interrupt, spare)],
        timers=[NewTimer(id=TimerId("deadline"), kind="deadline", due_at=stage.at(FAR_OFF))],
        move=Move(to=RunStatus.WAITING, reason=WaitsFor.PERSON),
    )
    async with stage.queue:
        await stage.do(store.interrupts.respond(space, interrupt, InterruptResponse(response="yes", by="ann")))
        worker = await stage.claim()
    await worker.commit(
        StateSnapshot(snapshot={"answer": "yes"}), consumed=[1], cancelled_timers=["deadline"], withdrawn=[spare]
    )
    await stage.do(store.inbox.put(space, run, kind=InboxKind.MESSAGE, data={"text": "hurry"}, by="ann"))
    with pytest.raises(InboxNotEmpty):
        await store.journal.commit(Commit(lease=worker.lease, move=DONE))
    await worker.commit(messages=[user("hurry", id="m2")], consumed=[2])
    await worker.commit(end=worker.finished(), move=DONE)


async def tree(stage: Stage) -> None:
    """Spawn children, end all of them at once with everything open, release them, and delete them."""
    store, space = stage.store, stage.space
    await stage.do(store.spaces.create(space, name="Acme"))
    root, child = RunId("root"), RunId("child")
    async with stage.queue:
        await stage.do(store.runs.create(space, _new_thread_run(root)))
        parent = await stage.claim()
    await _spawn(parent)
    async with stage.queue:
        await stage.do(store.runs.create(space, _new_thread_run(child, parent=root)))
        busy = await stage.claim()
    await busy.commit(
        *_start_events("b1", "half a sen"),
        *_tool_call_events("b1", "d1"),
        messages=[assistant("half a sen", call("d1"), id="b1")],
        steps=[_model(1, StepState.DONE), _tool(2, "d1", effectful=True)],
        timers=[NewTimer(id=TimerId("alarm"), kind="alarm", due_at=stage.at(FAR_OFF))],
    )
    await stage.do(store.runs.create(space, _new_thread_run(RunId("grandchild"), parent=child, later=stage)))
    await stage.do(store.inbox.put(space, root, kind=InboxKind.MESSAGE, data={"text": "stop"}))
    await stage.do(store.runs.end(space, root, reason="enough", by="ann"))
    await stage.do(store.leases.release(busy.lease))
    await stage.do(store.leases.release(parent.lease))
    await stage.do(store.runs.delete(space, root))


async def family(stage: Stage) -> None:
    """Create a child in the commit that waits for it, share a budget, and continue without an answer."""
    store, space = stage.store, stage.space
    await stage.do(store.spaces.create(space, name="Acme"))
    root, child, interrupt = RunId("parent"), RunId("child"), InterruptId("unheard")
    limits = Limits(token_budget=1_000, cost_budget_usd=1.0, max_duration_seconds=3600)
    async with stage.queue:
        await stage.do(store.runs.create(space, _new_thread_run(root, limits=limits)))
        parent = await stage.claim()
    await stage.do(store.journal.next_task_id(parent.lease, step="key-1"))
    async with stage.queue:
        await parent.commit(
            *_tool_call_events("a1", "c1"),
            messages=[assistant("", call("c1", "spawn"), id="a1")],
            steps=[_model(1, StepState.DONE), _tool(2, "c1")],
            children=[_new_thread_run(child, parent=root, limits=Limits(token_budget=50))],
            usage=USAGE,
            move=Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD, waits_on=[child]),
        )
        worker = await stage.claim()
    await worker.commit(*_start_events("b1", "I help"), steps=[_model(1)])
    async with stage.queue:
        await worker.commit(end=worker.finished(), messages=[assistant("I help")], usage=USAGE, move=DONE)
        parent = await stage.claim()
    await parent.commit(
        _result_events("c1"), messages=[result("c1")], steps=[_tool(2, "c1", StepState.DONE), _model(3)], consumed=[1]
    )
    outcome = InterruptOutcome(interrupts=[AgUiInterrupt(id=interrupt, reason="input_required")])
    question = NewInterrupt(id=interrupt, kind=InterruptKind.INPUT, default="no", expires_at=stage.at(-SECOND))
    async with stage.queue:
        await parent.commit(
            end=RunFinished(thread_id=parent.lease.thread_id, run_id=root, outcome=outcome),
            steps=[_model(3, StepState.FAILED)],
            usage=USAGE,
            interrupts=[question],
            move=Move(to=RunStatus.WAITING, reason=WaitsFor.PERSON),
        )
        assert await stage.do(store.interrupts.expire()) == [interrupt]
        parent = await stage.claim()
    await parent.commit(end=parent.finished(), consumed=[2], move=DONE)
    await stage.do(store.runs.delete(space, root))


async def deletion(stage: Stage) -> None:
    """Delete a run that other runs are based on, then those."""
    store, space = stage.store, stage.space
    await stage.do(store.spaces.create(space, name="Acme"))
    for number in (1, 2):
        async with stage.queue:
            begin = NewRun(
                id=RunId(f"run-{number}"),
                thread=NewThread(id=ThreadId("chain")) if number == 1 else ThreadId("chain"),
                messages=[user("hello", id=f"m{number}")],
            )
            await stage.do(store.runs.create(space, begin))
            worker = await stage.claim()
        replies = [assistant("one", id=f"a{number}"), assistant("two", id=f"b{number}")]
        await worker.commit(end=worker.finished(), messages=replies, values={"plan": [number]}, move=DONE)
    fork = NewRun(
        id=RunId("fork"),
        thread=ThreadId("chain"),
        base=RunBase(run_id=RunId("run-1"), sequence=1),
        wait_until=stage.at(FAR_OFF),
    )
    await stage.do(store.runs.create(space, fork))
    await stage.do(store.runs.delete(space, RunId("run-1")))
    await stage.do(store.runs.end(space, RunId("fork"), to=RunStatus.FAILED))
    await stage.do(store.runs.delete(space, RunId("fork")))
    await stage.do(store.runs.delete(space, RunId("run-2")))


async def timers(stage: Stage) -> None:
    """Set timers and fire them: into an inbox, as a new run, repeatedly, never, and at their run's end."""
    store, space = stage.store, stage.space
    await stage.do(store.spaces.create(space, name="Acme"))
    sleeper = RunId("sleeper")
    await stage.do(store.runs.create(space, _new_thread_run(sleeper, later=stage)))
    claim = await _due(stage, "one")
    await stage.do(store.inbox.put(space, sleeper, kind=InboxKind.TIMER, data={"timer": "one"}, fires=claim))
    claim = await _due(stage, "two")
    await stage.do(store.runs.create(space, _new_thread_run(RunId("born"), later=stage), fires=claim))
    claim = await _due(stage, "three")
    await stage.do(store.timers.settle(claim, next_due=stage.at(FAR_OFF)))
    await stage.do(store.timers.cancel(space, TimerId("three")))
    last = NewTimer(id=TimerId("four"), kind="k", due_at=stage.at(FAR_OFF))
    await stage.do(store.timers.set(space, last, run=sleeper))
    await stage.do(store.runs.end(space, sleeper, to=RunStatus.FAILED, reason="tired"))


async def leases(stage: Stage) -> None:
    """Hold a lease, release it, lose it, and end. It moves the clock, so it plays alone."""
    store, space = stage.store, stage.space
    await stage.do(store.spaces.create(space, name="Acme"))
    run = RunId("held")
    await stage.do(store.runs.create(space, _new_thread_run(run)))
    worker = await stage.claim()
    stage.clock.tick(SECOND)
    await stage.do(store.leases.renew(WORKER, [worker.lease], lease=LEASE))
    await stage.do(store.leases.release(worker.lease, delay=SECOND))
    stage.clock.tick(SECOND)
    await stage.claim()
    stage.clock.tick(LEASE)
    assert await stage.do(store.leases.expire()) == [run]
    stage.clock.tick(LEASE)
    worker = await stage.claim()
    await worker.commit(*_start_events("a1", "late"), steps=[_model(1)])
    requeue = Move(to=RunStatus.QUEUED, reason="try again", wait_until=stage.at(SECOND))
    await worker.commit(end=worker.failed(), steps=[_model(1, StepState.FAILED)], move=requeue)
    stage.clock.tick(SECOND)
    worker = await stage.claim()
    await worker.commit(end=worker.finished(), move=DONE)


async def library(stage: Stage) -> None:
    """Create files, artifacts, keys and notifications, change them, and remove them. It plays alone."""
    store, space = stage.store, stage.space
    await stage.do(store.spaces.create(space, name="Acme"))
    await stage.do(store.runs.create(space, _new_thread_run(RunId("author"))))
    worker = await stage.claim()
    for file in ("first", "second"):
        await stage.do(store.files.create(space, NewFile(id=FileId(file), name="a.txt", content=b"the same")))
    report = NewArtifact(id=ArtifactId("report"), type=ArtifactType.REPORT, title="Report", content="draft")
    await worker.commit(artifacts=[report])
    better = NewArtifact(id=report.id, type=ArtifactType.REPORT, title="Report", file_id=FileId("first"))
    await stage.do(store.artifacts.create(space, worker.lease.run_id, better))
    await stage.do(store.files.delete(space, FileId("second")))
    secret = sha256(space.encode()).digest()
    key = await stage.do(store.api_keys.create([space], NewApiKey(name="ci", scope=Scope.RUN, secret_hash=secret)))
    await stage.do(store.api_keys.revoke(key.id))
    patch = ThreadPatch(title="renamed", summary="short", key_points=["one"])
    await stage.do(store.threads.update(space, worker.lease.thread_id, patch))
    await stage.do(store.spaces.update(space, SpacePatch(name="Acme, Inc.")))
    await worker.commit(end=worker.finished(), move=DONE)
    await stage.do(store.notifications.dispatch())
    await stage.do(store.notifications.mark_read(space, through=1))
    await stage.do(store.spaces.delete(space))


TOGETHER: Final[Mapping[str, Play]] = {
    "conversation": conversation,
    "waiting": waiting,
    "tree": tree,
    "family": family,
    "deletion": deletion,
    "timers": timers,
}
"""Workloads that may run concurrently, each in its own space."""
PLAYS: Final[Mapping[str, Play]] = {**TOGETHER, "leases": leases, "library": library}


def _new_thread_run(
    run: RunId, *, parent: RunId | None = None, later: Stage | None = None, limits: Limits = NO_LIMITS
) -> NewRun:
    """Return a new run on a new thread, not claimable for a long time if `later`."""
    return NewRun(
        id=run,
        thread=NewThread(id=ThreadId(f"of-{run}")),
        messages=[user("go", id=f"{run}-in")],
        parent_run_id=parent,
        wait_until=None if later is None else later.at(FAR_OFF),
        limits=limits,
    )


async def _spawn(parent: Worker) -> None:
    await parent.commit(
        *_tool_call_events("a1", "c1"),
        messages=[assistant("", call("c1", "spawn"), id="a1")],
        steps=[_model(1, StepState.DONE), _tool(2, "c1")],
    )


async def _due(stage: Stage, name: str) -> TimerClaim:
    new = NewTimer(id=TimerId(name), kind="k", due_at=stage.at(-SECOND), data={"n": name})
    async with stage.queue:
        await stage.do(stage.store.timers.set(stage.space, new))
        (claim,) = await stage.do(stage.store.timers.claim_due(WORKER, lease=LEASE))
    return claim


def _start_events(message: str, text: str) -> list[Event]:
    name = MessageId(message)
    return [TextMessageStart(message_id=name, role="assistant"), TextMessageContent(message_id=name, delta=text)]


def _end_events(message: str) -> list[Event]:
    return [TextMessageEnd(message_id=MessageId(message))]


def _tool_call_events(message: str, *calls: str) -> list[Event]:
    events: list[Event] = []
    for name in map(ToolCallId, calls):
        events += [
            ToolCallStart(tool_call_id=name, tool_call_name="look", parent_message_id=MessageId(message)),
            ToolCallArgs(tool_call_id=name, delta="{}"),
            ToolCallEnd(tool_call_id=name),
        ]
    return events


def _result_events(name: str) -> ToolCallResult:
    return ToolCallResult(message_id=MessageId(f"{name}-result"), tool_call_id=ToolCallId(name), content="seen")


def _context_snapshot(step: int) -> ContextSnapshot:
    """Return a context with only a prompt."""
    prompt, tools = text_digest("be good"), text_digest("[]")
    return ContextSnapshot(
        step=step,
        model="model",
        segments=(SentSegment(name="core", digest=prompt, tokens=2),),
        conversation=(),
        reminders=(),
        tools=tools,
        tokens={"core": 2},
        first_sequence=None,
        last_sequence=None,
        compaction_through=None,
        texts={prompt: "be good", tools: "[]"},
    )


def _model(number: int, state: StepState = StepState.STARTED) -> Step:
    return Step(number=number, kind=StepKind.MODEL, name="model", key=f"key-{number}", state=state)


def _tool(number: int, name: str, state: StepState = StepState.STARTED, *, effectful: bool = False) -> Step:
    return Step(
        number=number,
        kind=StepKind.TOOL,
        name="look",
        key=f"key-{number}",
        state=state,
        tool_call_id=ToolCallId(name),
        effectful=effectful,
    )
