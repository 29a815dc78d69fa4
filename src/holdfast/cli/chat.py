"""`holdfast chat`: a conversation in the terminal.

A line that is typed while the agent works steers it. Questions of the agent are answered inline. Ctrl-C detaches, and
the run goes on; twice, it offers to cancel the run.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from holdfast.cli.arguments import ModelOption, ThreadOption, complete_agents
from holdfast.cli.command import connect_async, options, server_options
from holdfast.cli.main import EXIT_INTERRUPTED
from holdfast.cli.output import print_message
from holdfast.cli.questions import describe_question, edit_json, parse_answer
from holdfast.cli.runs import EXIT_WAITING
from holdfast.concurrency import cancel_and_wait, start_background
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, HoldfastError, Invalid
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.message import Message, Role
from holdfast.domain.run import Run, RunStatus

if TYPE_CHECKING:
    from holdfast.cli.line_editor import LineEditor
    from holdfast.cli.terminal_view import TerminalView
    from holdfast.client.client import Client, RemoteRun

SECOND_INTERRUPT_SECONDS: Final = 1.0
"""Time after Ctrl-C in which a second one offers to cancel the run."""
SHOWN_MESSAGES: Final = 6
"""Messages that are shown when a thread is resumed."""
PROMPT: Final = "you › "
STEER_PROMPT: Final = "steer › "
"""Shown before a line that is typed while the agent works."""
HELP: Final = """\
/fork [NUMBER]  send the next message on a new branch: after message NUMBER, or in place of your last one
/retry          answer your last message again on a new branch; after a failed or cancelled run, go on with it
/model [NAME]   use another model from the next message on; without a name, that of the agent
/agent NAME     talk to another agent from the next message on
/thread [ID]    show the thread, or go to another one
/cancel         stop the run (while it works)
/quit           leave; the thread stays"""
QUIT_COMMANDS: Final = frozenset({"/quit", "/exit", "/q"})
IDLE_COMMANDS: Final = frozenset({"/fork", "/retry", "/model", "/agent", "/thread"})
"""Commands that need a run to have ended: another line that begins with `/` is an answer, or steers."""


class _InputEnded(Exception):
    """The run asks, and the input has ended."""


class CtrlC:
    """Ctrl-C was pressed."""


Input: TypeAlias = str | CtrlC | None
"""What a person typed: a line, Ctrl-C, or null at the end of the input."""


def chat(
    agent: Annotated[
        str | None,
        typer.Argument(metavar="AGENT", autocompletion=complete_agents, help="The agent; by default the workspace's."),
    ] = None,
    thread: ThreadOption = None,
    model: ModelOption = None,
) -> None:
    """Talk to AGENT: live answers, tool calls and plan, approvals inline, and steering while it works.

    `/help` lists the commands inside. Ctrl-C detaches, and the run continues; twice, it offers to cancel the run. From
    a pipe, each line is a message, sent when the last one is answered.

    Exit codes: 0 left with `/quit` or at the end of the input, 1 refused, 5 the input ended at a question, 130
    detached from a run with Ctrl-C.
    """
    if options().as_json:
        raise typer.BadParameter("a conversation has no JSON: use `holdfast ask` or `holdfast run follow`")
    raise typer.Exit(asyncio.run(_chat(agent, thread, model)))


async def _chat(agent: str | None, thread: str | None, model: str | None) -> int:
    from holdfast.cli.terminal_view import TerminalView, stdout_console

    view = TerminalView(stdout_console(), respond_command=None, hidden={"step", "status"})
    async with connect_async() as hf:
        with _terminal_input() as (inputs, editor):
            conversation = Conversation(hf, inputs, view, editor, agent=agent, thread=thread, model=model)
            return await conversation.run()


class Conversation:
    """One conversation: its thread, the choices for the next message, and the run that works on it."""

    def __init__(
        self,
        hf: "Client",
        inputs: "asyncio.Queue[Input]",
        view: "TerminalView",
        editor: "LineEditor | None",
        *,
        agent: str | None,
        thread: str | None,
        model: str | None,
    ) -> None:
        self._hf = hf
        self._inputs = inputs
        self._view = view
        self._editor = editor
        if editor is not None:
            editor.before_typing = view.end_line
            editor.typing_prompt = STEER_PROMPT
        self._agent = agent
        self._thread = thread
        self._model = model
        self._last: RemoteRun | None = None
        self._fork_after: int | None = None
        self._refused: str | None = None
        """The last message, if it did not become a run."""
        self._unsent: list[Input] = []
        """What was typed for a run that had ended: it comes next."""
        self._exit_code = 0
        self._asking: Sequence[Interrupt] = ()
        """The open questions that the person answers next."""
        self._interactive = sys.stdin.isatty()
        self._showing = asyncio.Event()
        """Cleared while a prompt must not be mixed with output."""
        self._showing.set()

    async def run(self) -> int:
        """Talk until the person leaves; return the exit code."""
        await self._begin()
        while True:
            match await self._next_input():
                case None:
                    return self._exit_code
                case str(line) if line.strip() in QUIT_COMMANDS:
                    return 0
                case str(line) if line.strip():
                    if not await self._handle(line.strip()):
                        return EXIT_INTERRUPTED
                case str():
                    pass
                case _ if self._discard_line():
                    pass
                case _:  # Ctrl-C while nothing runs
                    typer.echo()
                    return 0

    async def _begin(self) -> None:
        if self._thread is not None:
            await self._resume(self._thread)
        elif self._agent is not None:
            await self._hf.agents.get(self._agent)
        if self._interactive:
            print_message(f"talking to {self._agent or 'the default agent'}; /help lists the commands, /quit leaves")

    async def _next_input(self) -> Input:
        if not self._unsent:
            self._prompt(PROMPT)
            return await self._inputs.get()
        given = self._unsent.pop(0)
        if self._interactive and isinstance(given, str) and given.strip():
            typer.echo(f"{PROMPT}{given}")
        return given

    def _discard_line(self) -> bool:
        """Forget the line that is being typed, as Ctrl-C does in a shell; return whether there was one."""
        return self._editor is not None and self._editor.discard()

    async def _handle(self, line: str) -> bool:
        """Handle a line typed while nothing runs; return false if the person detached from a run."""
        try:
            return await (self._command(line) if line.startswith("/") else self._send(line))
        except HoldfastError as error:
            print_message(f"{error.message} [{error.code}]")
            return True

    async def _send(self, text: str) -> bool:
        """Send a message, and follow its run; `/retry` sends a refused one again."""
        self._refused = text
        if self._fork_after is not None and self._last is not None:
            started = await self._last.fork(text, after=self._fork_after, agent=self._agent, model=self._model)
        else:
            started = await self._hf.start(self._agent, text, thread=self._thread, model=self._model)
        self._refused = self._fork_after = None
        return await self._follow(started)

    async def _command(self, line: str) -> bool:
        word, _, value = line.partition(" ")
        value = value.strip()
        match word:
            case "/help":
                print_message(HELP)
            case "/model":
                self._model = value or None
                print_message(f"model: {value or 'that of the agent'}")
            case "/agent" if value:
                await self._hf.agents.get(value)
                self._agent = value
                print_message(f"agent: {value}")
            case "/thread" if value:
                await self._resume(value)
            case "/thread":
                print_message(f"thread: {self._thread or 'none yet'}")
            case "/fork":
                await self._prepare_fork(value)
            case "/retry" if self._refused is not None:
                return await self._send(self._refused)
            case "/retry" if self._last is not None:
                return await self._follow(await self._retry(self._last))
            case _:
                print_message(f"`{line}` is not a command here: /help lists them")
        return True

    async def _retry(self, last: "RemoteRun") -> "RemoteRun":
        ended = await last.get()
        if ended.status is not RunStatus.COMPLETED:
            return await last.retry()
        messages, at = await self._last_message(last)
        if at == 0:  # there is nothing to branch from
            return await self._hf.start(self._agent, ended.input, model=self._model)
        after = messages[at - 1].sequence
        return await last.fork(ended.input, after=after, agent=self._agent, model=self._model)

    async def _last_message(self, run: "RemoteRun") -> tuple[list[Message], int]:
        """Return the messages that a run sees, and the place of the last one of the person."""
        messages = [message for message in await run.messages() if message.sequence is not None]
        return messages, max(index for index, message in enumerate(messages) if message.role is Role.USER)

    async def _prepare_fork(self, value: str) -> None:
        if self._last is None:
            raise Invalid("there is no run to branch from yet: say something first")
        if value and not value.isdecimal():
            raise Invalid("/fork takes the number of a message, such as `/fork 3`")
        if value:
            self._fork_after = int(value)
        else:
            messages, at = await self._last_message(self._last)
            if at == 0:
                raise Invalid("there is nothing before your first message: start a new conversation instead")
            self._fork_after = messages[at - 1].sequence
        print_message(f"the next message starts a branch after message {self._fork_after}")

    async def _resume(self, thread: str) -> None:
        found = await self._hf.threads.get(thread)
        self._thread, self._fork_after = found.id, None
        self._agent = self._agent or found.agent_type
        for message in await self._hf.threads.messages(thread, limit=SHOWN_MESSAGES):
            if message.role in (Role.USER, Role.ASSISTANT) and message.content:
                self._view.show_message("user" if message.role is Role.USER else "agent", str(message.content))
        newest = [each async for each in self._hf.runs.list(thread=thread, limit=1)]
        if newest:
            self._last = self._hf.run(newest[0].id)
            if not newest[0].status.terminal:
                await self._follow(self._last)

    async def _follow(self, run: "RemoteRun") -> bool:
        """Show a run until it has ended, taking input meanwhile; return false if the person detached."""
        self._last = run
        started = await run.get()
        self._thread = started.thread_id
        following = start_background(self._show(run), name="holdfast-chat-events", ended_by="Conversation._follow")
        typed: asyncio.Task[Input] | None = None
        try:
            while not following.done():
                if typed is None and self._interactive:
                    typed = start_background(
                        self._inputs.get(), name="holdfast-chat-input", ended_by="Conversation._follow"
                    )
                waiting: set[asyncio.Task[Any]] = {following} if typed is None else {following, typed}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if typed is not None and typed.done():
                    given, typed = typed.result(), None
                    if not await self._while_working(run, given):
                        return False
            with suppress(_InputEnded):
                await following
                self._exit_code = 0
        finally:
            if typed is not None and typed.done():
                self._unsent.append(typed.result())
            await cancel_and_wait([following] if typed is None else [following, typed])
        ended = await run.get()
        if ended.error is not None:
            print_message(f"{ended.error.message} [{ended.error.code}]; /retry goes on after the last step")
        elif ended.status is RunStatus.CANCELLED:
            print_message("cancelled; /retry goes on after the last step")
        return True

    async def _show(self, run: "RemoteRun") -> None:
        """Show the events of a run, and ask the person wherever it waits for one."""
        from holdfast.domain.events import RunFinished, RunStarted, decode_event
        from holdfast.domain.events.messages import InterruptOutcome

        async for event in run.stream(on_connection=self._notify, retry_seconds=float("inf")):
            await self._showing.wait()
            if self._editor is not None:
                await self._editor.free.wait()
                self._editor.hide()
            self._view.show_event(event.data)
            with suppress(Invalid):
                decoded = decode_event(event.data)
                if isinstance(decoded, RunStarted):
                    self._asking = ()  # answered, here or elsewhere
                if isinstance(decoded, RunFinished) and isinstance(decoded.outcome, InterruptOutcome):
                    self._asking = await run.interrupts()
                    await self._ask(run)

    async def _ask(self, run: "RemoteRun") -> None:
        """Show the first open question; input from a pipe answers it at once."""
        if not self._asking:
            return
        for line in describe_question(self._asking[0]):
            self._view.show_message("question", line)
        self._prompt("answer › ")
        if not self._interactive:
            given = await self._inputs.get()
            if given is None:
                self._inputs.put_nowait(None)
                self._exit_code = EXIT_WAITING
                print_message(f"the run waits for an answer: holdfast run show {run.id}{server_options()}")
                raise _InputEnded
            await self._answer(run, str(given))

    async def _answer(self, run: "RemoteRun", typed: str) -> None:
        question, *others = self._asking
        try:
            response = parse_answer(question, typed.strip(), edit=self._edit if self._interactive else None)
            await self._hf.run(question.run_id).respond(response, interrupt_id=question.id, digest=question.digest)
        except HoldfastError as error:
            print_message(error.message)
            if not isinstance(error, Invalid):
                self._asking = others
        else:
            self._asking = others
        await self._ask(run)

    async def _while_working(self, run: "RemoteRun", given: Input) -> bool:
        """Handle input while a run works; return false if the person detached."""
        if not isinstance(given, str):
            return self._discard_line() or await self._detach(run)
        line = given.strip()
        word = line.partition(" ")[0]
        if not line:
            return True
        if line == "/cancel":
            await self._cancel(run)
        elif line in QUIT_COMMANDS:
            return await self._detach(run)
        elif line == "/help" or word in IDLE_COMMANDS:
            state = "waits for your answer" if self._asking else "works"
            self._notify(HELP if line == "/help" else f"`{word}` is for later: the run {state}; /cancel stops it")
            self._prompt("answer › " if self._asking else "")
        elif self._asking:
            await self._answer(run, line)
        else:
            try:
                await run.steer(line)
                self._notify("sent; the agent reads it before its next step")
            except HoldfastError as error:
                if isinstance(error, Conflict) and (await run.get()).status.terminal:
                    self._unsent.append(line)
                else:
                    self._notify(f"{error.message} [{error.code}]")
        return True

    async def _detach(self, run: "RemoteRun") -> bool:
        """Leave a run that works; on a second Ctrl-C offer to cancel it. Return true if it was cancelled instead."""
        self._showing.clear()
        self._notify(("" if self._editor else "\n") + "detaching, the run continues; Ctrl-C again to cancel it instead")
        if await self._interrupted_again():
            self._prompt("cancel the run? [y/N] ")
            if str(await self._inputs.get()).strip().lower() in ("y", "yes"):
                await self._cancel(run)
                self._showing.set()
                return True
        if self._editor is not None:
            self._editor.hide()
        agent = "" if self._agent is None else f" {self._agent}"
        print_message(f"resume: holdfast chat{agent} --thread {self._thread}{server_options()}")
        print_message(f"follow: holdfast run follow {run.id}{server_options()}")
        return False

    async def _interrupted_again(self) -> bool:
        try:
            async with asyncio.timeout(SECOND_INTERRUPT_SECONDS):
                while not isinstance(await self._inputs.get(), CtrlC):
                    pass
        except TimeoutError:
            return False
        return True

    async def _cancel(self, run: "RemoteRun") -> Run | None:
        try:
            return await run.cancel()
        except Conflict as error:
            print_message(error.message)
            return None

    def _edit(self, value: Json) -> Json:
        with nullcontext() if self._editor is None else self._editor.paused():
            return edit_json(value)

    def _notify(self, message: str) -> None:
        """Print a message on its own line of stderr, above the line that is being typed."""
        if self._editor is None:
            self._view.notify(message)
        else:
            self._editor.print_above(lambda: self._view.notify(message))

    def _prompt(self, text: str) -> None:
        if self._editor is not None:
            self._editor.ask(text)
        elif self._interactive:
            typer.echo(text, nl=False)


@contextmanager
def _terminal_input() -> Iterator[tuple["asyncio.Queue[Input]", "LineEditor | None"]]:
    """Yield the lines of stdin, Ctrl-C, and the end of the input, as they come; and the editor of a terminal."""
    inputs: asyncio.Queue[Input] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        loop.add_signal_handler(signal.SIGINT, inputs.put_nowait, CtrlC())
        stack.callback(loop.remove_signal_handler, signal.SIGINT)
        editor = None
        if sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            from holdfast.cli.line_editor import LineEditor

            editor = LineEditor(on_line=inputs.put_nowait, on_end=lambda: inputs.put_nowait(None))
            stack.enter_context(editor.raw())
            loop.add_reader(sys.stdin.fileno(), _read_keys, editor, inputs, loop)
            stack.callback(loop.remove_reader, sys.stdin.fileno())
        else:
            stack.callback(_read_lines(inputs, loop))
        yield inputs, editor


def _read_keys(editor: "LineEditor", inputs: "asyncio.Queue[Input]", loop: asyncio.AbstractEventLoop) -> None:
    try:
        data = os.read(sys.stdin.fileno(), 65536)
    except OSError:  # the terminal was closed
        data = b""
    if data:
        editor.feed(data)
    else:
        loop.remove_reader(sys.stdin.fileno())
        inputs.put_nowait(None)


def _read_lines(inputs: "asyncio.Queue[Input]", loop: asyncio.AbstractEventLoop) -> Callable[[], object]:
    descriptor = sys.stdin.fileno()
    partial = b""

    def read() -> None:
        nonlocal partial
        data = os.read(descriptor, 65536)
        *lines, partial = (partial + data).split(b"\n")
        for line in lines:
            inputs.put_nowait(line.decode(errors="replace"))
        if not data:
            loop.remove_reader(descriptor)
            if partial:
                inputs.put_nowait(partial.decode(errors="replace"))
            inputs.put_nowait(None)

    try:
        loop.add_reader(descriptor, read)
    except PermissionError:  # a file cannot be waited for
        for line in sys.stdin.buffer:
            inputs.put_nowait(line.decode(errors="replace"))
        inputs.put_nowait(None)
        return lambda: None
    return lambda: loop.remove_reader(descriptor)
