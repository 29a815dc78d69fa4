"""Terminal view of a run: one labelled line per event, and model output as it streams.

    agent   An orange sponge keeps well and needs no nuts.
    call    plan_check {"task_id":1,"subtask":"choose the base"}
    result  plan_check ─► {"task_id":1,"status":"in_progress"}

Each line starts with a label, so that colour is never the only difference.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from msgspec import UNSET
from rich.console import Console
from rich.text import Text

from holdfast.cli.output import print_message, strip_control_chars
from holdfast.domain.content import Content
from holdfast.domain.errors import Invalid
from holdfast.domain.events import (
    Custom,
    Event,
    ReasoningMessageContent,
    ReasoningMessageStart,
    RunErrorEvent,
    RunFinished,
    RunStarted,
    SubagentError,
    SubagentFinished,
    SubagentStarted,
    TextMessageContent,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
    decode_event,
)
from holdfast.domain.events.custom import (
    AgentLogged,
    ArtifactCreated,
    ChildChanged,
    ContextCompacted,
    InterruptChanged,
    MessagesAbandoned,
    PlanChanged,
    StatusChanged,
    StepChanged,
    from_custom,
)
from holdfast.domain.events.messages import CancelledOutcome, InterruptOutcome
from holdfast.domain.interrupt import InterruptStatus
from holdfast.domain.plan import PlanItem, PlanStatus, SubtaskStatus
from holdfast.domain.run import Run
from holdfast.domain.step import StepState

MAX_LINE_CHARS: Final = 200
"""Characters of what a call says and gets; `--json` has all of it."""


class LineStyle(NamedTuple):
    """How a kind of line looks: its label, and what stands after it."""

    label_style: str
    text_style: str


LABELS: Final[Mapping[str, LineStyle]] = {
    "run": LineStyle("bold", ""),
    "user": LineStyle("bold", "bold"),
    "agent": LineStyle("bold green", ""),
    "thinks": LineStyle("dim", "dim italic"),
    "call": LineStyle("cyan", ""),
    "result": LineStyle("cyan", ""),
    "step": LineStyle("dim", "dim"),
    "plan": LineStyle("blue", ""),
    "made": LineStyle("blue", ""),
    "child": LineStyle("magenta", ""),
    "asks": LineStyle("bold yellow", "bold"),
    "status": LineStyle("yellow", ""),
    "log": LineStyle("dim", ""),
    "void": LineStyle("yellow", ""),
    "error": LineStyle("bold red", ""),
}

_STATUS_MARKS: Final = {
    PlanStatus.PLANNED: " ",
    PlanStatus.IN_PROGRESS: "▸",
    PlanStatus.BLOCKED: "!",
    PlanStatus.COMPLETED: "✓",
    PlanStatus.CANCELLED: "×",
}


def plan_line(item: PlanItem) -> str:
    """Return what a line of a plan says."""
    done = sum(subtask.status is SubtaskStatus.DONE for subtask in item.subtasks)
    subtasks = f" ({done}/{len(item.subtasks)})" if item.subtasks else ""
    return f"[{_STATUS_MARKS[item.status]}] {item.task_id}. {item.title}{subtasks}"


def one_line(text: str) -> str:
    """Return a text on one line, and of a long one its beginning."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…"


def interrupt_messages(event: RunFinished) -> list[str]:
    """Return what a run asks people at the end of a segment."""
    if not isinstance(event.outcome, InterruptOutcome):
        return []
    return [each.reason if each.message is UNSET else each.message for each in event.outcome.interrupts]


def end_status(event: RunFinished) -> str:
    """Return how a run ended that did not fail."""
    return "cancelled" if isinstance(event.outcome, CancelledOutcome) else "finished"


def total_tokens(event: RunFinished) -> int:
    """Return how many tokens a segment claims to have used."""
    used = [] if event.usage is UNSET else event.usage
    return sum(0 if each.total_tokens is UNSET else each.total_tokens for each in used)


LABEL_COLUMNS: Final = 8
"""Characters before what is said, for what it is about."""


class TerminalView:
    """`View` for people, on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._names: dict[str, str] = {}
        self._arguments: dict[str, str] = {}
        self._plan: dict[int, str] = {}
        self._segments = 0
        self._open_message: str | None = None
        """The message that is being written on a line which is not ended."""

    def show_run(self, run: Run) -> None:
        """Show what is followed."""
        self._line("run", f"{run.id}, agent {run.agent_type}, thread {run.thread_id}")
        if isinstance(run.input, str):
            self._line("user", run.input)

    def show_event(self, data: bytes) -> None:
        """Show one event, if it is for people."""
        with suppress(Invalid):  # a later server may say what this version does not know
            self._show(decode_event(data))

    def notify(self, words: str) -> None:
        """Say something on stderr, on a line of its own."""
        self._end_line()
        print_message(words)

    def _show(self, event: Event) -> None:
        match event:
            case TextMessageStart() | TextMessageContent() | ReasoningMessageStart() | ReasoningMessageContent():
                self._show_words(event)
            case ToolCallStart() | ToolCallArgs() | ToolCallEnd() | ToolCallResult():
                self._show_call(event)
            case RunStarted() | RunFinished() | RunErrorEvent():
                self._show_segment(event)
            case SubagentStarted() | SubagentFinished() | SubagentError():
                self._show_child(event)
            case Custom():
                self._show_custom(event)
            case _:
                pass

    def _end_line(self) -> None:
        """End the line that is being written, so that something else can be."""
        if self._open_message is not None:
            self._open_message = None
            self._console.print()

    def _show_words(
        self, event: TextMessageStart | TextMessageContent | ReasoningMessageStart | ReasoningMessageContent
    ) -> None:
        label = "agent" if isinstance(event, TextMessageStart | TextMessageContent) else "thinks"
        if self._open_message != event.message_id:
            self._end_line()
            self._open_message = event.message_id
            self._console.print(_label_text(label), end="")
        if isinstance(event, TextMessageContent | ReasoningMessageContent):
            self._console.print(_safe_text(event.delta, LABELS[label].text_style), end="")

    def _show_call(self, event: ToolCallStart | ToolCallArgs | ToolCallEnd | ToolCallResult) -> None:
        call = event.tool_call_id
        match event:
            case ToolCallStart():
                self._names[call] = event.tool_call_name
            case ToolCallArgs():
                self._arguments[call] = self._arguments.get(call, "") + event.delta
            case ToolCallEnd():
                self._line("call", f"{self._name(call)} {one_line(self._arguments.pop(call, ''))}".rstrip())
            case ToolCallResult():
                self._line("result", f"{self._name(call)} ─► {one_line(_text_content(event.content))}")

    def _show_segment(self, event: RunStarted | RunFinished | RunErrorEvent) -> None:
        match event:
            case RunStarted():
                self._segments += 1
                if self._segments > 1:
                    self._line("status", "goes on")
            case RunFinished():
                asked = interrupt_messages(event)
                for question in asked:
                    self._line("asks", question)
                answer = f"waits for an answer, at POST /api/runs/{event.run_id}/respond"
                self._line("status", answer if asked else f"{end_status(event)}, {total_tokens(event)} tokens")
            case RunErrorEvent():
                self._line("error", f"{event.message}{'' if event.code is UNSET else f' [{event.code}]'}")

    def _show_child(self, event: SubagentStarted | SubagentFinished | SubagentError) -> None:
        run = event.subagent_run_id
        match event:
            case SubagentStarted():
                self._names[run] = event.name
                self._line("child", f"{event.name} begins, as {run}")
            case SubagentFinished():
                self._line("child", f"{self._name(run)} is done")
            case SubagentError():
                self._line("child", f"{self._name(run)} failed: {event.message}")

    def _show_custom(self, event: Custom) -> None:
        match from_custom(event):
            case StatusChanged(to=to, reason=reason):
                self._line("status", str(to) if reason is UNSET else f"{to}: {reason}")
            case StepChanged() as step if step.state not in (StepState.STARTED, StepState.WAITING):
                tries = f", at try {step.attempt}" if step.attempt > 1 else ""
                self._line("step", f"{step.number} {step.kind} {step.state}{tries}")
            case PlanChanged(items=items):
                self._show_plan(items)
            case ArtifactCreated(title=title, version=version, artifact_id=artifact):
                self._line("made", f"{title}, version {version}, as {artifact}")
            case InterruptChanged(status=status) if status is not InterruptStatus.OPEN:
                self._line("status", f"the question is {status}")
            case _ as other:
                self._show_note(other)

    def _show_note(self, event: object) -> None:
        match event:
            case MessagesAbandoned(through=through):
                self._line("void", f"what it was saying up to event {through}: nothing came of that call")
            case ChildChanged(run_id=run, status=status):
                self._line("child", f"{run} is {status}")
            case AgentLogged(message=message):
                self._line("log", message)
            case ContextCompacted(tokens_before=before, tokens_after=after):
                self._line("log", f"older messages are told in fewer words, {after} tokens in place of {before}")
            case _:
                pass

    def _show_plan(self, items: tuple[PlanItem, ...]) -> None:
        """Show what is new in a plan."""
        for item in items:
            line = plan_line(item)
            if self._plan.get(item.task_id) != line:
                self._plan[item.task_id] = line
                self._line("plan", line)

    def _name(self, key: str) -> str:
        return self._names.get(key, key)

    def _line(self, label: str, words: str) -> None:
        self._end_line()
        self._console.print(Text.assemble(_label_text(label), _safe_text(words, LABELS[label].text_style)))


def stdout_console() -> Console:
    """Return the console that stdout is: with styles where it is a terminal, and no line broken."""
    return Console(soft_wrap=True, highlight=False, markup=False, emoji=False)


def _label_text(label: str) -> Text:
    return Text(label.ljust(LABEL_COLUMNS), style=LABELS[label].label_style)


def _safe_text(words: str, style: str) -> Text:
    """Return words as they may be shown: nothing in them moves a cursor, and further lines are indented."""
    return Text(strip_control_chars(words).replace("\n", "\n" + " " * LABEL_COLUMNS), style=style)


def _text_content(content: Content) -> str:
    return content if isinstance(content, str) else "(not only text)"
