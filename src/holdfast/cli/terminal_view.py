"""Terminal view of a run: one labelled line per event, and model output as it streams.

    agent     An orange sponge keeps well and needs no nuts.
    call      plan_check {"task_id":1,"subtask":"choose the base"}
    result    plan_check ─► {"task_id":1,"status":"in_progress"}

Each line starts with a label, so that colour is never the only difference.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final

from msgspec import UNSET
from rich.console import Console
from rich.text import Text

from holdfast.cli.output import print_message, strip_control_chars
from holdfast.cli.questions import question_lines
from holdfast.cli.tables import short_time
from holdfast.domain.errors import Invalid
from holdfast.domain.events import (
    Custom,
    Event,
    ReasoningMessageContent,
    ReasoningMessageStart,
    RunErrorEvent,
    RunFinished,
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
    FolderNotice,
    InterruptChanged,
    McpServerUnavailable,
    MessagesAbandoned,
    PlanChanged,
    RetryScheduled,
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
"""Characters shown of the arguments or the result of a call; `--json` prints all of them."""


LABEL_STYLES: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("bold", ""),
    "user": ("bold", "bold"),
    "agent": ("bold green", ""),
    "reasoning": ("dim", "dim italic"),
    "call": ("cyan", ""),
    "result": ("cyan", ""),
    "step": ("dim", "dim"),
    "plan": ("blue", ""),
    "artifact": ("blue", ""),
    "child": ("magenta", ""),
    "question": ("bold yellow", "bold"),
    "status": ("yellow", ""),
    "log": ("dim", ""),
    "tools": ("yellow", ""),
    "discarded": ("yellow", ""),
    "error": ("bold red", ""),
}
"""The styles of each label and of the text after it."""

_STATUS_MARKS: Final = {
    PlanStatus.PLANNED: " ",
    PlanStatus.IN_PROGRESS: "▸",
    PlanStatus.BLOCKED: "!",
    PlanStatus.COMPLETED: "✓",
    PlanStatus.CANCELLED: "×",
}


def one_line(text: str) -> str:
    """Return a text on one line, truncated if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…"


LABEL_COLUMNS: Final = 10
"""Width of the label column."""


class TerminalView:
    """`RunView` for people, on a console."""

    def __init__(self, console: Console, *, respond_command: str | None, hidden: Collection[str] = ()) -> None:
        """`respond_command` is the command line that answers a question, up to its options; null shows no questions.

        Lines with a label in `hidden` are not shown.
        """
        self._hidden = hidden
        self._console = console
        self._respond_command = respond_command
        self._names: dict[str, str] = {}
        self._arguments: dict[str, str] = {}
        self._plan: dict[int, str] = {}
        self._open_message: str | None = None
        """The message whose line is still being written."""
        self._unsettled_output = False
        """Whether output of a model call is shown that has not settled yet."""

    def show_run(self, run: Run) -> None:
        """Show the run that is followed."""
        self._line("run", f"{run.id}, agent {run.agent_type}, thread {run.thread_id}")
        if isinstance(run.input, str):
            self._line("user", run.input)

    def show_event(self, data: bytes) -> None:
        """Show one event, if it has a line for people."""
        with suppress(Invalid):  # a newer server may send events that this version does not know
            self._show(decode_event(data))

    def show_message(self, label: str, text: str) -> None:
        """Show a line of the conversation that is not an event."""
        self._line(label, text)

    def notify(self, message: str) -> None:
        """Print a message on its own line of stderr."""
        self.end_line()
        print_message(message)

    def _show(self, event: Event) -> None:
        match event:
            case TextMessageStart() | TextMessageContent() | ReasoningMessageStart() | ReasoningMessageContent():
                self._show_text(event)
            case ToolCallStart() | ToolCallArgs() | ToolCallEnd() | ToolCallResult():
                self._show_call(event)
            case RunFinished() | RunErrorEvent():
                self._show_segment_end(event)
            case SubagentStarted() | SubagentFinished() | SubagentError():
                self._show_child(event)
            case Custom():
                self._show_custom(event)
            case _:
                pass

    def end_line(self) -> None:
        """End the line of a message that is still being written."""
        if self._open_message is not None:
            self._open_message = None
            self._console.print()

    def _show_text(
        self, event: TextMessageStart | TextMessageContent | ReasoningMessageStart | ReasoningMessageContent
    ) -> None:
        self._unsettled_output = True
        label = "agent" if isinstance(event, TextMessageStart | TextMessageContent) else "reasoning"
        if self._open_message != event.message_id:
            self.end_line()
            self._open_message = event.message_id
            self._console.print(_label_text(label), end="")
        if isinstance(event, TextMessageContent | ReasoningMessageContent):
            self._console.print(_safe_text(label, event.delta), end="")

    def _show_call(self, event: ToolCallStart | ToolCallArgs | ToolCallEnd | ToolCallResult) -> None:
        call = event.tool_call_id
        match event:
            case ToolCallStart():
                self._names[call] = event.tool_call_name
                self._unsettled_output = True
            case ToolCallArgs():
                self._arguments[call] = self._arguments.get(call, "") + event.delta
            case ToolCallEnd():
                self._line("call", f"{self._name(call)} {one_line(self._arguments.pop(call, ''))}".rstrip())
            case ToolCallResult():
                text = event.content if isinstance(event.content, str) else "(not only text)"
                self._line("result", f"{self._name(call)} ─► {one_line(text)}")

    def _show_segment_end(self, event: RunFinished | RunErrorEvent) -> None:
        match event:
            case RunFinished(outcome=InterruptOutcome(interrupts=interrupts)):
                if self._respond_command is not None:
                    for interrupt in interrupts:
                        self._line("question", "\n".join(question_lines(interrupt, command=self._respond_command)))
                    self._line("status", "waiting for a response")
            case RunFinished():
                usages = [] if event.usage is UNSET else event.usage
                tokens = sum(0 if usage.total_tokens is UNSET else usage.total_tokens for usage in usages)
                status = "cancelled" if isinstance(event.outcome, CancelledOutcome) else "finished"
                self._line("status", f"{status}, {tokens} tokens")
            case RunErrorEvent():
                self._line("error", f"{event.message}{'' if event.code is UNSET else f' [{event.code}]'}")

    def _show_child(self, event: SubagentStarted | SubagentFinished | SubagentError) -> None:
        run = event.subagent_run_id
        match event:
            case SubagentStarted():
                self._names[run] = event.name
                self._line("child", f"{event.name} started as {run}")
            case SubagentFinished():
                self._line("child", f"{self._name(run)} finished")
            case SubagentError():
                self._line("child", f"{self._name(run)} failed: {event.message}")

    def _show_custom(self, event: Custom) -> None:
        match from_custom(event):
            case StatusChanged(to=to, reason=reason):
                self._line("status", str(to) if reason is UNSET else f"{to}: {reason}")
            case StepChanged() as step if step.state not in (StepState.STARTED, StepState.WAITING):
                self._unsettled_output = False
                attempt = f", attempt {step.attempt}" if step.attempt > 1 else ""
                self._line("step", f"{step.number} {step.kind} {step.state}{attempt}")
            case PlanChanged(items=items):
                self._show_plan(items)
            case ArtifactCreated(title=title, version=version, artifact_id=artifact):
                self._line("artifact", f"{title}, version {version}, as {artifact}")
            case InterruptChanged(status=status) if status is not InterruptStatus.OPEN:
                self._line("status", f"question {status}")
            case _ as other:
                self._show_note(other)

    def _show_note(self, event: object) -> None:
        match event:
            case MessagesAbandoned(through=through):
                if self._unsettled_output:
                    self._line("discarded", f"output of an interrupted model call, up to event {through}")
                self._unsettled_output = False
            case ChildChanged(run_id=run, status=status):
                self._line("child", f"{run} is {status}")
            case AgentLogged(message=message):
                self._line("log", message)
            case McpServerUnavailable() as server:
                remedy = f"\n→ {server.remedy}" if server.remedy else ""
                stderr = f"\nits stderr: {server.stderr}" if server.stderr else ""
                self._line("tools", f"{server.message}{remedy}{stderr}")
            case FolderNotice(message=message):
                self._line("files", message)
            case RetryScheduled(failures=failures, max_failures=maximum, retry_at=at):
                self._line("status", f"{failures} of {maximum} model calls failed in a row, next at {short_time(at)}")
            case ContextCompacted(tokens_before=before, tokens_after=after):
                self._line("log", f"context compacted: {before} to {after} tokens")
            case _:
                pass

    def _show_plan(self, items: tuple[PlanItem, ...]) -> None:
        """Show the changed lines of a plan."""
        for item in items:
            done = sum(subtask.status is SubtaskStatus.DONE for subtask in item.subtasks)
            subtasks = f" ({done}/{len(item.subtasks)})" if item.subtasks else ""
            line = f"[{_STATUS_MARKS[item.status]}] {item.task_id}. {item.title}{subtasks}"
            if self._plan.get(item.task_id) != line:
                self._plan[item.task_id] = line
                self._line("plan", line)

    def _name(self, key: str) -> str:
        return self._names.get(key, key)

    def _line(self, label: str, text: str) -> None:
        self.end_line()
        if label in self._hidden:
            return
        self._console.print(Text.assemble(_label_text(label), _safe_text(label, text)))


def stdout_console() -> Console:
    """Return a console on stdout: styled on a terminal, without line wrapping."""
    return Console(soft_wrap=True, highlight=False, markup=False, emoji=False)


def _label_text(label: str) -> Text:
    return Text(label.ljust(LABEL_COLUMNS), style=LABEL_STYLES[label][0])


def _safe_text(label: str, text: str) -> Text:
    """Return a text without control characters, its further lines indented, in the style of its label."""
    safe = strip_control_chars(text).replace("\n", "\n" + " " * LABEL_COLUMNS)
    return Text(safe, style=LABEL_STYLES[label][1])
