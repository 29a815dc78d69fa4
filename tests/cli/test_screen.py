"""`TerminalView`: labelled lines for the events of a run, without control characters."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from rich.console import Console

from holdfast.cli.tables import short_time
from holdfast.cli.terminal_view import TerminalView
from holdfast.domain.events import (
    EVENT_TYPES,
    Event,
    ReasoningMessageContent,
    ReasoningMessageStart,
    RunErrorEvent,
    RunFinished,
    RunStarted,
    SubagentFinished,
    SubagentStarted,
    TextMessageContent,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
    encode_event,
)
from holdfast.domain.events.custom import (
    CUSTOM_EVENT_TYPES,
    AgentLogged,
    HoldfastEvent,
    InterruptChanged,
    McpServerUnavailable,
    MessagesAbandoned,
    PlanChanged,
    RetryScheduled,
    StatusChanged,
    StepChanged,
    to_custom,
)
from holdfast.domain.events.messages import AgUiInterrupt, CancelledOutcome, InterruptOutcome
from holdfast.domain.ids import InterruptId, MessageId, RunId, ThreadId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import InterruptStatus
from holdfast.domain.plan import PlanItem, PlanStatus, Subtask, SubtaskStatus
from holdfast.domain.run import RunStatus
from holdfast.domain.step import StepKind, StepState
from holdfast.mcp.replies import Elicitation, ElicitationRequest, elicitation_interrupt

RUN, THREAD, MESSAGE, CALL = RunId("run_1"), ThreadId("thr_1"), MessageId("msg_1"), ToolCallId("call_1")
RETRY_AT = Instant("2026-01-31T12:00:05.000Z")


RESPOND = "holdfast run respond run_1"


def rendered(*events: Event | HoldfastEvent, terminal: bool = False) -> str:
    """Return the terminal output for events."""
    paper = io.StringIO()
    console = Console(file=paper, soft_wrap=True, highlight=False, markup=False, force_terminal=terminal, width=40)
    screen = TerminalView(console, respond_command=RESPOND)
    for event in events:
        own = type(event) in CUSTOM_EVENT_TYPES.values()
        screen.show_event(encode_event(to_custom(event) if own else event))  # type: ignore[arg-type] # distinguished in this line
    return paper.getvalue()


def text(words: str, message: MessageId = MESSAGE) -> Event:
    return TextMessageContent(message_id=message, delta=words)


def test_the_pieces_of_a_message_are_joined() -> None:
    begin, log_event = TextMessageStart(message_id=MESSAGE), AgentLogged(message="by the way")
    assert rendered(begin, text("It is "), text("late.\nGood night."), log_event) == (
        "agent     It is late.\n          Good night.\nlog       by the way\n"
    )


def test_a_message_followed_from_its_middle_has_a_label() -> None:
    assert rendered(text("and so on")) == "agent     and so on"


def test_reasoning_and_text_have_different_labels() -> None:
    thought = MessageId("msg_0")
    events = (ReasoningMessageStart(message_id=thought), ReasoningMessageContent(message_id=thought, delta="Hm."))
    assert rendered(*events, TextMessageStart(message_id=MESSAGE), text("Yes.")) == "reasoning Hm.\nagent     Yes."


def test_a_call_is_shown_with_its_arguments_and_its_result_on_one_line_each() -> None:
    long = "x" * 500
    lines = rendered(
        ToolCallStart(tool_call_id=CALL, tool_call_name="look"),
        ToolCallArgs(tool_call_id=CALL, delta='{"at":'),
        ToolCallArgs(tool_call_id=CALL, delta='"me"}'),
        ToolCallEnd(tool_call_id=CALL),
        ToolCallResult(message_id=MESSAGE, tool_call_id=CALL, content=f"a\nb {long}"),
    ).splitlines()
    assert lines == ['call      look {"at":"me"}', f"result    look ─► a b {long[:196]}…"]


def test_only_changed_plan_lines_are_shown() -> None:
    first = PlanItem(task_id=1, position=0, title="Bake", subtasks=(Subtask(title="mix"),))
    second = PlanItem(task_id=2, position=1, title="Eat")
    mixed = PlanItem(
        task_id=1,
        position=0,
        title="Bake",
        status=PlanStatus.IN_PROGRESS,
        subtasks=(Subtask(title="mix", status=SubtaskStatus.DONE),),
    )
    assert rendered(PlanChanged(items=(first, second)), PlanChanged(items=(mixed, second))).splitlines() == [
        "plan      [ ] 1. Bake (0/1)",
        "plan      [ ] 2. Eat",
        "plan      [▸] 1. Bake (1/1)",
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (RunStarted(thread_id=THREAD, run_id=RUN), ""),
        (RunFinished(thread_id=THREAD, run_id=RUN), "status    finished, 0 tokens\n"),
        (RunFinished(thread_id=THREAD, run_id=RUN, outcome=CancelledOutcome()), "status    cancelled, 0 tokens\n"),
        (RunErrorEvent(message="no way", code="MODEL_REFUSED"), "error     no way [MODEL_REFUSED]\n"),
        (RunErrorEvent(message="no way"), "error     no way\n"),
        (SubagentStarted(subagent_run_id=RUN, name="taster"), "child     taster started as run_1\n"),
        (SubagentFinished(subagent_run_id=RUN), "child     run_1 finished\n"),
        (StatusChanged(from_=RunStatus.RUNNING, to=RunStatus.WAITING, reason="child"), "status    waiting: child\n"),
        (StepChanged(number=2, kind=StepKind.TOOL, state=StepState.STARTED, key="k", attempt=1), ""),
        (
            StepChanged(number=2, kind=StepKind.TOOL, state=StepState.UNKNOWN, key="k", attempt=2),
            "step      2 tool unknown, attempt 2\n",
        ),
        (
            InterruptChanged(interrupt_id=InterruptId("int_1"), status=InterruptStatus.EXPIRED),
            "status    question expired\n",
        ),
        (
            RetryScheduled(message="down", failures=1, max_failures=5, retry_at=RETRY_AT),
            f"status    1 of 5 model calls failed in a row, next at {short_time(RETRY_AT)}\n",
        ),
    ],
)
def test_each_event_has_a_line(event: Event | HoldfastEvent, line: str) -> None:
    assert rendered(event) == line


def asking(interrupt: AgUiInterrupt) -> list[str]:
    """Return the lines of a run that waits for one response."""
    outcome = InterruptOutcome(interrupts=[interrupt])
    return rendered(RunFinished(thread_id=THREAD, run_id=RUN, outcome=outcome)).splitlines()


def test_a_question_is_shown_with_the_command_that_answers_it() -> None:
    assert asking(AgUiInterrupt(id=InterruptId("int_1"), reason="input_required", message="Which?")) == [
        "question  Which?",
        "          → holdfast run respond run_1 --interrupt int_1 'YOUR ANSWER'",
        "status    waiting for a response",
    ]


def test_the_choices_of_a_question_are_commands() -> None:
    schema = {"type": "string", "enum": ["red", "dark green", "-"]}
    question = AgUiInterrupt(id=InterruptId("int_1"), reason="input_required", message="Which?", response_schema=schema)
    assert asking(question)[1:-1] == [
        "          → holdfast run respond run_1 --interrupt int_1 red",
        "          → holdfast run respond run_1 --interrupt int_1 'dark green'",
        "          → holdfast run respond run_1 --interrupt int_1 --data '\"-\"'",
    ]


def test_an_approval_is_shown_with_its_arguments_and_a_command_for_each_decision() -> None:
    schema = {"type": "object", "properties": {"decision": {"enum": ["approve", "deny", "always"]}}}
    approval = AgUiInterrupt(
        id=InterruptId("int_1"),
        reason="tool_call",
        message="The agent wants to call `bash`. May it?",
        response_schema=schema,
        metadata={"arguments": {"command": "ls"}, "digest": "d", "reason": "it was asked for"},
    )
    assert asking(approval) == [
        "question  The agent wants to call `bash`. May it?",
        '          {"command":"ls"}',
        "          reason: it was asked for",
        "          → holdfast run respond run_1 --interrupt int_1 --approve",
        "          → holdfast run respond run_1 --interrupt int_1 --always",
        "          → holdfast run respond run_1 --interrupt int_1 --deny --reason 'YOUR REASON'",
        "status    waiting for a response",
    ]


def test_an_elicitation_is_shown_with_its_fields() -> None:
    request = ElicitationRequest(
        message="Who are you?",
        requested_schema={
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "description": "your name"},
                "age": {"type": "integer", "default": 30},
                "size": {"type": "string", "enum": ["s", "m"]},
            },
        },
    )
    interrupt = elicitation_interrupt("desk", Elicitation(requests={"asked": request}, way="answer"))
    shown = AgUiInterrupt(
        id=InterruptId("int_1"),
        reason="input_required",
        message=interrupt.message,
        response_schema=interrupt.response_schema or UNSET,
    )
    assert asking(shown) == [
        "question  The MCP server `desk` asks: Who are you?",
        "          name: string (your name)",
        "          age: integer, optional, default 30",
        "          size: s or m, optional",
        "          → holdfast run respond run_1 --interrupt int_1 --accept --field name=TEXT --field age:=INTEGER "
        "--field size=TEXT",
        "          → holdfast run respond run_1 --interrupt int_1 --decline",
        "status    waiting for a response",
    ]


def test_an_abandoned_call_is_reported_only_if_output_of_it_was_shown() -> None:
    abandoned = MessagesAbandoned(message_ids=[MESSAGE], through=9)
    done = StepChanged(number=1, kind=StepKind.MODEL, state=StepState.DONE, key="k", attempt=1)
    assert rendered(abandoned) == ""
    assert rendered(text("It is"), done, abandoned) == "agent     It is\nstep      1 model done\n"
    assert rendered(text("It is"), abandoned, abandoned).splitlines() == [
        "agent     It is",
        "discarded output of an interrupted model call, up to event 9",
    ]


def test_a_server_without_tools_is_shown_with_its_remedy_and_stderr() -> None:
    event = McpServerUnavailable(server="x", message="it failed", remedy="do this", stderr="oh\nno")
    assert rendered(event).splitlines() == [
        "tools     it failed",
        "          → do this",
        "          its stderr: oh",
        "          no",
    ]


@given(words=st.text())
def test_control_characters_of_a_model_never_reach_the_terminal(words: str) -> None:
    clean = words.encode(errors="replace").decode()
    paper = rendered(text(clean), AgentLogged(message=clean))
    assert not {character for character in paper if ord(character) < 32 or 127 <= ord(character) < 160} - {"\n", "\t"}


def test_carriage_returns_are_removed() -> None:
    assert rendered(text("one\r"), text("\ntwo")) == "agent     one\n          two"


def test_a_terminal_gets_styles_and_the_same_text() -> None:
    assert rendered(AgentLogged(message="hi"), terminal=True) == "\x1b[2mlog       \x1b[0mhi\n"


def test_an_unknown_event_is_ignored() -> None:
    screen = TerminalView(Console(file=io.StringIO()), respond_command=RESPOND)
    assert "LATER" not in EVENT_TYPES
    screen.show_event(b'{"type":"LATER"}')
    screen.show_event(b'{"type":"CUSTOM","name":"holdfast.step","value":{"number":"one"}}')
