"""Recovery of one call whose worker is killed: each tool class, policy and attempt count."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import pytest

from holdfast.bootstrap.store import open_store
from holdfast.bootstrap.workspace import open_workspace
from holdfast.domain.content import Json
from holdfast.domain.errors import LeaseLost
from holdfast.domain.events import Custom, TextMessageStart
from holdfast.domain.events.custom import MessagesAbandoned, from_custom
from holdfast.domain.ids import OwnerId, RunId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.instant import Instant
from holdfast.domain.limits import MAX_ATTEMPTS, MAX_BACKOFF_MS, backoff_ms
from holdfast.domain.message import Role
from holdfast.domain.run import RunStatus
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.step import StepKind, StepState
from holdfast.domain.timer import NewTimer
from holdfast.engine.watcher import RunWatch
from holdfast.store.commit_rows import MAX_MESSAGE_CHARS
from holdfast.testing.clock import HeldClock
from holdfast.testing.stream_verifier import verify_stream
from tests.builders import user
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import queued
from tests.scenario.conftest import NewLocation
from tests.scenario.crash_check import check_transcript
from tests.scenario.crash_history import RunHistory, read
from tests.scenario.crash_play import GOAL, calling, moment, name_of, write_agent_with
from tests.scenario.crash_relay import NO_KILL, KillPlan, NextKill, Relay, open_relay
from tests.scenario.crash_victim import start_play
from tests.support.counting_server import CountingServer
from tests.support.fork_server import HANG_TIMEOUT_SECONDS, ForkServer

CHARGED: Final = [calling(("charge", "fuel")), calling(say="Done.")]
INSIDE_CHARGE: Final = moment("tool", "fuel", "inside")
BEFORE_CHARGE: Final = moment("tool", "fuel", "begun")

RecoveryPlay: TypeAlias = Callable[..., AbstractAsyncContextManager[Relay]]

_numbers = count(1)


@pytest.fixture
def recovery_play(
    crash_workers: ForkServer, tool_server: CountingServer, tmp_path: Path, shared_memory: Path
) -> RecoveryPlay:
    """Return a function that opens a relay for a captain with other turns, by default on SQLite."""

    @asynccontextmanager
    async def sail(
        turns: Sequence[dict[str, Any]], *, where: str | Path | None = None, **settings: Any
    ) -> AsyncIterator[Relay]:
        workspace = write_agent_with(tmp_path / "ship", turns, **settings)
        async with open_relay(crash_workers, tool_server, workspace, where or shared_memory / "holdfast.db") as relay:
            yield relay

    return sail


def _new() -> RunId:
    return RunId(f"trip-{next(_numbers)}")


def kill_once_at(*moments: str) -> NextKill:
    """Kill one worker at each of these moments, in this order, and spare the later ones."""
    return in_turn(KillPlan(moments=frozenset({each}), on_last_attempt=True) for each in moments)


def in_turn(next_kill: Any) -> NextKill:
    """Return the kill plans in order, and no kill for later workers."""
    following = chain(next_kill, repeat(NO_KILL))
    return lambda: next(following)


def kill_always_at(*moments: str, max_kills: int = 20) -> NextKill:
    """Kill every worker at one of these moments; fail if that does not end."""
    plan, remaining = KillPlan(moments=frozenset(moments), on_last_attempt=True), iter(range(max_kills))

    def choose() -> KillPlan:
        assert next(remaining, None) is not None, "the run kills its workers for ever"
        return plan

    return choose


def result_of(history: RunHistory) -> tuple[str, Any]:
    (message,) = [message for message in history.messages if message.role is Role.TOOL]
    return str(message.content), message.metadata.get("failed")


def tool_steps(history: RunHistory) -> list[tuple[StepState, int]]:
    return [(step.state, step.attempt) for step in history.steps if step.kind is StepKind.TOOL]


@pytest.mark.parametrize(("at", "calls"), [(BEFORE_CHARGE, 0), (INSIDE_CHARGE, 1)])
async def test_the_model_is_told_of_an_unknown_outcome_and_nothing_runs_twice(
    recovery_play: RecoveryPlay, tool_server: CountingServer, at: str, calls: int
) -> None:
    async with recovery_play(CHARGED) as relay:
        history, _ = await relay.play(run := _new(), kill_once_at(at))
        await relay.check(history, history)
    content, failed = result_of(history)
    assert content.startswith("unknown: the worker was lost while `charge` ran")
    assert failed == "unknown"
    assert tool_steps(history) == [(StepState.UNKNOWN, 1)]
    assert len(await tool_server.calls(name_of(run, ""))) == calls


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        ({"outcome": "happened", "result": "receipt 7"}, "a person found out that it happened. receipt 7"),
        ({"outcome": "did_not_happen"}, "a person found out that it did not happen"),
    ],
)
async def test_a_person_decides_the_result_of_a_call_with_an_unknown_outcome(
    recovery_play: RecoveryPlay, tool_server: CountingServer, answer: Json, content: str
) -> None:
    async with recovery_play(CHARGED, unknown_outcome="ask") as relay:
        history, _ = await relay.play(run := _new(), kill_once_at(INSIDE_CHARGE), answer=answer)
        await relay.check(history, history)
    assert result_of(history) == (content, "unknown")
    (interrupt,) = history.interrupts
    assert interrupt.message is not None and "`charge`" in interrupt.message
    assert interrupt.arguments == {"what": "fuel"}
    assert len(await tool_server.calls(name_of(run, ""))) == 1


async def test_a_call_repeated_on_request_keeps_its_key(
    recovery_play: RecoveryPlay, tool_server: CountingServer
) -> None:
    async with recovery_play(CHARGED, unknown_outcome="ask") as relay:
        next_kill = kill_once_at(INSIDE_CHARGE, INSIDE_CHARGE)
        history, _ = await relay.play(run := _new(), next_kill, answer={"outcome": "run_again"})
        await relay.check(history, history)
    assert tool_steps(history) == [(StepState.UNKNOWN, 1), (StepState.UNKNOWN, 1), (StepState.DONE, 1)]
    assert len(history.interrupts) == 2
    calls = await tool_server.calls(name_of(run, ""))
    assert len(calls) == 3 and len({call.key for call in calls}) == 1
    assert result_of(history) == ('{"did":"charge","what":"fuel"}', None)


async def test_a_run_configured_to_fail_fails_on_an_unknown_outcome(
    recovery_play: RecoveryPlay, tool_server: CountingServer
) -> None:
    async with recovery_play(CHARGED, unknown_outcome="fail") as relay:
        history, _ = await relay.play(run := _new(), kill_once_at(INSIDE_CHARGE))
    assert history.run.status is RunStatus.FAILED
    assert history.run.error is not None and history.run.error.code == "UNKNOWN_OUTCOME"
    assert tool_steps(history) == [(StepState.UNKNOWN, 1)]
    assert result_of(history)[0].startswith("not answered: the run failed")
    assert len(await tool_server.calls(name_of(run, ""))) == 1


async def test_only_the_interrupted_call_of_several_is_unknown(
    recovery_play: RecoveryPlay, tool_server: CountingServer
) -> None:
    turns = [calling(("charge", "fuel"), ("charge", "water"), ("charge", "rope")), calling(say="Done.")]
    async with recovery_play(turns) as relay:
        history, _ = await relay.play(run := _new(), kill_once_at(moment("tool", "water", "inside")))
        await relay.check(history, history)
    assert tool_steps(history) == [(StepState.DONE, 1), (StepState.UNKNOWN, 1), (StepState.DONE, 1)]
    assert [call.name.split("/")[1] for call in await tool_server.calls(name_of(run, ""))] == ["fuel", "water", "rope"]


@pytest.mark.parametrize("tool", ["sync", "look"])
async def test_an_idempotent_call_is_repeated_with_the_same_key(
    recovery_play: RecoveryPlay, tool_server: CountingServer, tool: str
) -> None:
    async with recovery_play([calling((tool, "papers")), calling(say="Done.")]) as relay:
        inside = moment("tool", "papers", "inside")
        history, _ = await relay.play(run := _new(), kill_once_at(inside, inside))
        await relay.check(history, history)
    ((state, attempt),) = tool_steps(history)
    assert state is StepState.DONE and attempt <= 3, "that it begins is recorded, and not waited for"
    calls = await tool_server.calls(name_of(run, ""))
    assert len(calls) == 3 and len({call.key for call in calls}) == 1


@pytest.mark.parametrize("stage", ["begun", "over"])
async def test_a_transactional_call_is_never_unknown_and_has_one_effect(
    recovery_play: RecoveryPlay, stage: Any
) -> None:
    async with recovery_play([calling(("note", "logbook")), calling(say="Done.")]) as relay:
        at = moment("tool", "logbook", stage)
        history, _ = await relay.play(_new(), kill_once_at(at, at))
        await relay.check(history, history)
    assert [artifact.title for artifact in history.artifacts] == ["logbook"]
    assert [state for state, _ in tool_steps(history)] == [StepState.DONE]


async def test_the_text_of_a_lost_model_call_is_abandoned_and_the_next_call_has_another_id(
    recovery_play: RecoveryPlay,
) -> None:
    async with recovery_play([calling(say="A long story.")]) as relay:
        history, _ = await relay.play(_new(), kill_once_at(moment("model", f"{GOAL} 0", "over")))
        await relay.check(history, history)
    message_ids = [event.message_id for event in history.events if isinstance(event, TextMessageStart)]
    void = [from_custom(event) for event in history.events if isinstance(event, Custom)]
    (abandoned,) = [each for each in void if isinstance(each, MessagesAbandoned)]
    assert abandoned.message_ids == message_ids[:1]
    assert [message.id for message in history.messages if message.role is Role.ASSISTANT] == message_ids[1:]
    assert [(step.state, step.attempt) for step in history.steps] == [(StepState.DONE, 2)]


@pytest.mark.parametrize("stage", ["begun", "inside", "over"])
async def test_a_killed_model_call_uses_up_no_iteration(recovery_play: RecoveryPlay, stage: Any) -> None:
    turns = [calling(("sync", f"{number}")) for number in range(3)]
    kills = [moment("model", f"{GOAL} {turn}", stage) for turn in (1, 3)]
    async with recovery_play([*turns, calling(say="Done.")], limits={"max_iterations": 4}) as relay:
        history, _ = await relay.play(_new(), kill_once_at(*kills))
        await relay.check(history, history)
    assert (history.run.status, history.run.iterations, len(relay.deaths)) == (RunStatus.COMPLETED, 4, 2)


@pytest.mark.parametrize("stage", ["begun", "inside", "over"])
async def test_a_run_that_kills_its_worker_in_each_model_call_fails_eventually(
    recovery_play: RecoveryPlay, stage: Any
) -> None:
    """Steps settled by recovery are not progress: they would reset the attempt count each time."""
    async with recovery_play([calling(say="A long story.")]) as relay:
        history, _ = await relay.play(_new(), kill_always_at(moment("model", f"{GOAL} 0", stage)))
    assert history.run.status is RunStatus.FAILED
    assert history.run.error is not None and history.run.error.code == "ATTEMPTS_EXHAUSTED"
    assert len(relay.deaths) == MAX_ATTEMPTS


async def test_a_run_that_kills_its_worker_in_each_tool_call_fails_eventually(
    recovery_play: RecoveryPlay, tool_server: CountingServer
) -> None:
    async with recovery_play([calling(("sync", "papers")), calling(say="Done.")]) as relay:
        history, _ = await relay.play(run := _new(), kill_always_at(moment("tool", "papers", "inside")))
    assert history.run.error is not None and history.run.error.code == "ATTEMPTS_EXHAUSTED"
    calls = await tool_server.calls(name_of(run, ""))
    assert len(calls) == len(relay.deaths) == MAX_ATTEMPTS + 1, "the first of them had settled the model call"
    assert result_of(history)[0].startswith("not answered")


async def test_a_settled_step_resets_the_count_of_attempts(recovery_play: RecoveryPlay) -> None:
    """Four of five attempts are killed in each call, and the run still completes."""
    turns = [calling(("sync", "one")), calling(("sync", "two")), calling(say="Done.")]
    moments = [moment("model", f"{GOAL} {turn}", "inside") for turn in range(3)]
    deadly = [each for each in moments for _ in range(MAX_ATTEMPTS - 1)]
    async with recovery_play(turns) as relay:
        history, _ = await relay.play(_new(), kill_once_at(*deadly))
        await relay.check(history, history)
    assert len(relay.deaths) == len(deadly)


async def test_a_run_whose_worker_died_twice_is_retried_with_a_growing_delay(
    recovery_play: RecoveryPlay, new_location: NewLocation
) -> None:
    async with recovery_play([calling(say="A long story.")], where=await new_location()) as relay:
        inside = moment("model", f"{GOAL} 0", "inside")
        history, _ = await relay.play(_new(), kill_once_at(inside, inside, inside))
        await relay.check(history, history)
        assert relay.survivor.delays_ms == [backoff_ms(attempt) for attempt in (2, 3)]


async def test_restarts_in_quick_succession_do_not_use_up_the_attempts_of_a_run(shared_memory: Path) -> None:
    """On SQLite, where each restart of the process takes every run with it."""
    database, clock, owner = shared_memory / "holdfast.db", HeldClock(), OwnerId("dead")
    async with open_store(database, clock=clock) as store:
        await store.spaces.create(SPACE, name="Acme")
        run = await queued(store)
    for _ in range(2 * MAX_ATTEMPTS):
        async with open_store(database, clock=clock) as store:
            clock.tick(timedelta(seconds=1))
            await store.leases.claim(owner, lease=timedelta(hours=1))
    async with open_store(database, clock=clock) as store:
        stopped = await store.runs.get(SPACE, run.id)
        clock.tick(timedelta(milliseconds=MAX_BACKOFF_MS))
        assert [each.run_id for each in await store.leases.claim(owner, lease=timedelta(hours=1))] == [run.id]
    assert (stopped.status, stopped.attempt < MAX_ATTEMPTS) == (RunStatus.QUEUED, True)


async def test_a_timer_claimed_by_a_dead_process_is_free_when_the_file_is_opened(shared_memory: Path) -> None:
    database, owner = shared_memory / "holdfast.db", OwnerId("dead")
    async with open_store(database) as store:
        await store.spaces.create(DEFAULT_SPACE, name="default")
        await store.timers.set(DEFAULT_SPACE, NewTimer(kind="wake", due_at=Instant("2020-01-01T00:00:00.000Z")))
        (claim,) = await store.timers.claim_due(owner, lease=timedelta(hours=1))
        assert await store.timers.claim_due(owner, lease=timedelta(hours=1)) == []
    async with open_store(database) as store:
        (reclaimed,) = await store.timers.claim_due(owner, lease=timedelta(hours=1))
        assert reclaimed.timer.id == claim.timer.id
        with pytest.raises(LeaseLost):
            await store.timers.settle(claim)


async def test_a_permanent_refusal_of_the_store_fails_the_run_and_frees_its_worker(tmp_path: Path) -> None:
    """The refused commit is not in the log: the end must follow the log, and consume the inbox."""
    sleeping = {"call": [{"name": "sleep", "arguments": {"seconds": 3600}}]}
    async with open_workspace(write_agent_with(tmp_path, [sleeping], tools=["sleep"])) as holdfast:
        await start_play(holdfast, run := _new())
        with holdfast.watcher.watch(DEFAULT_SPACE, run) as watch:
            await _until(watch, RunStatus.WAITING)
            too_long = msgspec.to_builtins(user("x" * (MAX_MESSAGE_CHARS + 1)))
            await holdfast.store.inbox.put(DEFAULT_SPACE, run, kind=InboxKind.MESSAGE, data=too_long)
            await _until(watch, RunStatus.FAILED)
        history = await read(holdfast.store, run)
    assert history.run.error is not None and history.run.error.code == "TOO_LARGE"
    check_transcript(history)
    verify_stream(history.events)


async def _until(watch: RunWatch, status: RunStatus) -> None:
    seq = 0
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
        while (head := await watch.wait_past(seq)) is not None and head.status is not status:
            assert not head.status.terminal
            seq = head.last_event_seq
