"""The projection of runs to tasks, and of any log to task events."""

from itertools import pairwise
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.tasks.bodies import PHASE_OF_STATUS, TaskStatus, listed_task, newest_context, task_state, task_status
from holdfast.api.tasks.events import MAX_PREVIEW_CHARS, TASK_LOG_EVENT_TYPES, TaskEvent, TaskProjection
from holdfast.domain.context import ReadContext
from holdfast.domain.events import (
    Custom,
    Event,
    RunErrorEvent,
    RunFinished,
    RunStarted,
    TextMessageContent,
    ToolCallArgs,
    ToolCallResult,
    ToolCallStart,
    encode_event,
)
from holdfast.domain.events.custom import AgentLogged, StatusChanged, StepChanged, to_custom
from holdfast.domain.events.messages import AgUiInterrupt, CancelledOutcome, InterruptOutcome, SuccessOutcome
from holdfast.domain.ids import InterruptId, MessageId, RunId, SpaceId, ThreadId, ToolCallId
from holdfast.domain.instant import Millis, instant
from holdfast.domain.page import Page
from holdfast.domain.run import Run, RunPhase, RunStatus, WaitsFor, run_phase
from holdfast.domain.step import RecordedStep, Step, StepKind, StepState
from holdfast.domain.task_ids import run_id_of, task_id_of
from holdfast.ports.log import LoggedEvent

RUN, THREAD, MESSAGE = RunId("run_x"), ThreadId("thr_x"), MessageId("m")
MODEL_STEP_STARTED: Final = to_custom(
    StepChanged(number=1, kind=StepKind.MODEL, state=StepState.STARTED, key="k", attempt=1)
)
INTERRUPT: Final = AgUiInterrupt(id=InterruptId("int_x"), reason="input_required", message="which?")


def run_with(status: RunStatus, *, reason: str | None = None, started: bool = True, **fields: object) -> Run:
    """Return a run in a status."""
    now = "2026-01-31T12:00:00.000Z"
    known: dict[str, object] = {
        **dict.fromkeys(Run.__struct_fields__),
        "id": RUN,
        "thread_id": THREAD,
        "root_run_id": RUN,
        "root_thread_id": THREAD,
        "space_id": "default",
        "mode": "task",
        "agent_type": "bot",
        "status": status,
        "status_reason": reason,
        "usage": {"cost_usd": None},
        "priority": "normal",
        "tags": [],
        "limits": {},
        "iterations": 0,
        "attempt": 0,
        "last_event_seq": 1,
        "created_at": now,
        "started_at": now if started else None,
        **fields,
    }
    return msgspec.convert(known, Run)


@pytest.mark.parametrize(
    ("status", "reason", "started", "task"),
    [
        (RunStatus.PENDING, None, False, "pending"),
        (RunStatus.QUEUED, None, False, "pending"),
        (RunStatus.QUEUED, None, True, "processing"),
        (RunStatus.RUNNING, None, True, "processing"),
        (RunStatus.WAITING, "child", True, "processing"),
        (RunStatus.WAITING, "timer", True, "processing"),
        (RunStatus.WAITING, "person", True, "waiting"),
        (RunStatus.COMPLETED, None, True, "finished"),
        (RunStatus.FAILED, None, True, "failed"),
        (RunStatus.FAILED, None, False, "failed"),
        (RunStatus.CANCELLED, None, True, "canceled"),
        (RunStatus.CANCELLED, None, False, "canceled"),
    ],
)
def test_each_run_status_maps_to_a_task_status(status: RunStatus, reason: str | None, started: bool, task: str) -> None:
    run = run_with(status, reason=reason, started=started)
    assert task_status(run) == listed_task(run).status == task_state(run).status == task


@given(st.sampled_from(RunStatus), st.sampled_from([None, *WaitsFor]), st.booleans())
def test_each_status_of_a_task_is_one_phase_of_a_run(status: RunStatus, reason: str | None, started: bool) -> None:
    run = run_with(status, reason=reason, started=started)
    assert PHASE_OF_STATUS[task_status(run)] is run_phase(run)
    assert set(PHASE_OF_STATUS) == set(TaskStatus) and set(PHASE_OF_STATUS.values()) == set(RunPhase)
    assert status.terminal == (task_status(run) in ("finished", "failed", "canceled"))


@given(st.from_regex(r"\A(run_|task_|)[A-Za-z0-9_-]{1,40}\Z"))
def test_run_ids_and_task_ids_convert_both_ways(name: str) -> None:
    run = run_id_of(name)
    assert run_id_of(task_id_of(run)) == run_id_of(run) == run
    assert task_id_of(run_id_of(task_id_of(run))) == task_id_of(run)


@given(st.none() | st.text() | st.integers() | st.lists(st.text()))
def test_input_and_output_of_any_json_become_text(value: object) -> None:
    task = listed_task(run_with(RunStatus.COMPLETED, input=value, output=value))
    assert isinstance(task.input, str)
    assert task.output is None if value is None else isinstance(task.output, str)
    if isinstance(value, str):
        assert task.input == task.output == value


CALLS: Final = st.sampled_from([ToolCallId(name) for name in ("a", "b", "c")])
EVENTS: Final[st.SearchStrategy[Event]] = st.one_of(
    st.just(RunStarted(thread_id=THREAD, run_id=RUN)),
    st.builds(
        lambda outcome: RunFinished(thread_id=THREAD, run_id=RUN, outcome=outcome),
        st.sampled_from(
            [SuccessOutcome(), CancelledOutcome(), InterruptOutcome(interrupts=[INTERRUPT]), msgspec.UNSET]
        ),
    ),
    st.builds(RunErrorEvent, message=st.text(max_size=5), code=st.sampled_from(["CODE", msgspec.UNSET])),
    st.builds(lambda call: ToolCallStart(tool_call_id=call, tool_call_name=f"tool_{call}"), CALLS),
    st.builds(ToolCallArgs, tool_call_id=CALLS, delta=st.sampled_from(['{"x":', "1}", "{}", "no json"])),
    st.builds(ToolCallResult, message_id=st.just(MESSAGE), tool_call_id=CALLS, content=st.text(max_size=300)),
    st.builds(
        lambda kind, state, call: to_custom(
            StepChanged(number=1, kind=kind, state=state, key="k", attempt=1, tool_call_id=call)
        ),
        st.sampled_from(StepKind),
        st.sampled_from(StepState),
        CALLS | st.just(msgspec.UNSET),
    ),
    st.builds(
        lambda to, reason: to_custom(StatusChanged(from_=RunStatus.RUNNING, to=to, reason=reason)),
        st.sampled_from(RunStatus),
        st.sampled_from(["person", "child", "timer"]),
    ),
    st.sampled_from([to_custom(AgentLogged(message="x")), Custom(name="somebody.else", value=7)]),
    st.just(TextMessageContent(message_id=MESSAGE, delta="hi")),
)


def to_log(events: list[Event]) -> list[LoggedEvent]:
    """Return events as log entries."""
    return [
        LoggedEvent(seq=seq, type=_type(event), data=encode_event(event), created_at=instant(Millis(seq)))
        for seq, event in enumerate(events, start=1)
    ]


def task_events(log: list[LoggedEvent], projection: TaskProjection | None = None) -> list[TaskEvent]:
    """Return the task events of a log."""
    projection = projection or TaskProjection()
    return [event for item in log for event in projection.feed(item)]


def _type(event: Event) -> str:
    kind: str = msgspec.json.decode(encode_event(event))["type"]
    return kind


@given(st.lists(EVENTS, max_size=25), st.integers(0, 25))
def test_live_and_replayed_events_are_equal(events: list[Event], cut: int) -> None:
    log = to_log(events)
    whole = task_events(log)
    live = TaskProjection()
    before = task_events(log[:cut], live)
    assert before + task_events(log, live) == whole, "events that were read are skipped"
    assert task_events([item for item in log if item.type in TASK_LOG_EVENT_TYPES]) == whole, "model text has no effect"
    assert all(event.id <= cut for event in before)
    # A client that resumes after the last event before the cut has every event once.
    last = before[-1].id if before else 0
    assert before + [event for event in whole if event.id > last] == whole


@given(st.lists(EVENTS, max_size=25))
def test_each_task_event_has_the_number_of_one_log_event(events: list[Event]) -> None:
    log = to_log(events)
    ids = [event.id for event in task_events(log)]
    assert all(one < other for one, other in pairwise(ids))
    for event in task_events(log):
        assert event.created_at == log[event.id - 1].created_at


@given(st.lists(EVENTS, max_size=25))
def test_each_event_has_the_fields_of_both_documented_shapes(events: list[Event]) -> None:
    for event in task_events(to_log(events)):
        assert event.event.items() >= {"type": event.type, **event.data}.items()
        assert instant(event.timestamp) == event.created_at
        match event.type:
            case "status.change":
                assert set(event.data) - {"reason"} == {"from", "to"}
                assert event.event["status"] == event.data["to"]
            case "tool.start":
                assert set(event.data) == {"toolName", "toolInput"}
            case "tool.end":
                assert set(event.data) == {"toolName", "durationMs", "success", "outputPreview"}
                assert len(event.data["outputPreview"]) <= MAX_PREVIEW_CHARS and event.data["durationMs"] >= 0
            case _:
                raise AssertionError(event)


@given(st.lists(EVENTS, max_size=25))
def test_status_changes_are_consecutive_and_each_started_tool_ends_once(events: list[Event]) -> None:
    status, open_tools = "pending", list[str]()
    projection = TaskProjection()
    for event in task_events(to_log(events), projection):
        if event.type == "status.change":
            assert event.data["from"] == status != event.data["to"]
            status = event.data["to"]
        elif event.type == "tool.start":
            open_tools.append(event.data["toolName"])
        else:
            open_tools.remove(event.data["toolName"])
    assert status == projection.status


def test_an_unknown_call_is_not_a_success() -> None:
    call = ToolCallId("a")
    step = StepChanged(number=2, kind=StepKind.TOOL, state=StepState.STARTED, key="k", attempt=1, tool_call_id=call)
    unknown = msgspec.structs.replace(step, state=StepState.UNKNOWN)
    log = to_log(
        [
            MODEL_STEP_STARTED,
            ToolCallStart(tool_call_id=call, tool_call_name="pay"),
            to_custom(step),
            to_custom(unknown),
            ToolCallResult(message_id=MESSAGE, tool_call_id=call, content="unknown"),
            RunFinished(thread_id=THREAD, run_id=RUN),
        ]
    )
    events = task_events(log)
    assert [event.type for event in events] == ["status.change", "tool.start", "tool.end", "status.change"]
    assert events[2].data["success"] is False


def test_a_call_repeated_after_a_crash_is_reported_once() -> None:
    call = ToolCallId("a")
    step = StepChanged(number=2, kind=StepKind.TOOL, state=StepState.STARTED, key="k", attempt=1, tool_call_id=call)
    log = to_log(
        [
            MODEL_STEP_STARTED,
            ToolCallStart(tool_call_id=call, tool_call_name="look"),
            ToolCallArgs(tool_call_id=call, delta='{"at":"it"}'),
            to_custom(step),
            to_custom(msgspec.structs.replace(step, attempt=2)),
            ToolCallResult(message_id=MESSAGE, tool_call_id=call, content="seen"),
            to_custom(AgentLogged(message="beside it")),
            to_custom(msgspec.structs.replace(step, attempt=2, state=StepState.DONE)),
        ]
    )
    events = [(event.id, event.data) for event in task_events(log)]
    assert events == [
        (1, {"from": "pending", "to": "processing"}),
        (4, {"toolName": "look", "toolInput": {"at": "it"}}),
        (6, {"toolName": "look", "durationMs": 2, "success": True, "outputPreview": "seen"}),
    ]


@pytest.mark.parametrize(("state", "iteration"), [(StepState.DONE, 2), (StepState.FAILED, 1)])
async def test_only_answered_model_calls_count_as_iterations(state: StepState, iteration: int) -> None:
    first, second = [
        Step(number=number, kind=StepKind.MODEL, name="m", key="k", state=state, attempt=attempt)
        for number, attempt, state in ((1, 2, state), (3, 3, StepState.STARTED))
    ]
    context = await newest_context(_Contexts(), _Steps([first, second]), run_with(RunStatus.RUNNING))
    assert context is not None and context.iteration == iteration


class _Contexts:
    async def steps(self, space: SpaceId, run: RunId) -> list[int]:
        return [1, 3]

    async def get(self, space: SpaceId, run: RunId, step: int) -> ReadContext:
        empty: dict[str, Any] = dict.fromkeys(ReadContext.__struct_fields__)
        return ReadContext(**{**empty, "step": step, "system": "", "messages": (), "tools": []})


class _Steps:
    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps

    async def page(
        self, space: SpaceId, run: RunId, *, tree: bool = False, limit: int = 50, cursor: str | None = None
    ) -> Page[RecordedStep]:
        raise NotImplementedError

    async def of_run(self, space: SpaceId, run: RunId) -> list[Step]:
        return self._steps
