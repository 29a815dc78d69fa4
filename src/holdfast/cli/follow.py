"""`holdfast run follow`, `run watch` and `run respond`: see a run work, and answer it."""

import asyncio
import math
import shlex
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import typer

from holdfast.cli.arguments import RunArgument, decode_json
from holdfast.cli.command import command, connect, connect_async, options, server_options
from holdfast.cli.main import EXIT_INTERRUPTED
from holdfast.cli.output import print_line, print_message
from holdfast.cli.questions import form_content
from holdfast.cli.runs import EXIT_CODES, run
from holdfast.cli.tables import print_done
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import RunId
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.run import Run

if TYPE_CHECKING:
    from holdfast.client.client import Client


class RunView(Protocol):
    """The output of a followed run."""

    def show_run(self, run: Run) -> None:
        """Show the run that is followed."""

    def show_event(self, data: bytes) -> None:
        """Show an event, encoded as in the log."""

    def notify(self, message: str) -> None:
        """Show a message about the connection."""


class JsonLinesView:
    """`RunView` for programs: one event per line, byte for byte as in the log."""

    def show_run(self, run: Run) -> None:
        """Print nothing: the events contain it."""

    def show_event(self, data: bytes) -> None:
        """Print an event."""
        print_line(data)

    def notify(self, message: str) -> None:
        """Print a message on stderr."""
        print_message(message)


@command(run)
def follow(
    run_id: RunArgument,
    transport: Annotated[Literal["sse", "ws"], typer.Option(help="The transport of the event stream.")] = "sse",
    after: Annotated[
        int,
        typer.Option(metavar="NUMBER", min=0, help="Continue after this event number; 0 starts with the first."),
    ] = 0,
) -> None:
    """Show the past and new events of a run until it ends. Reconnects if the server restarts.

    Exit codes: 0 the run completed, 1 it failed or cannot be followed, 2 invalid command line, 3 it was cancelled,
    4 stdout could not be written, 130 Ctrl-C. After 4 and 130 the run continues.
    """
    as_json = options().as_json
    command = f"holdfast run follow {shlex.quote(run_id)} --transport {transport}{server_options()}"
    command += " --json" if as_json else ""
    try:
        ended = asyncio.run(_follow(RunId(run_id), transport, after, command=command, as_json=as_json))
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    reason = f": {ended.error.message} [{ended.error.code}]" if ended.error is not None else ""
    print_message(f"run {ended.id} {ended.status}{reason}")
    raise typer.Exit(EXIT_CODES[ended.status])


async def _follow(run_id: RunId, transport: str, after: int, *, command: str, as_json: bool) -> Run:
    from holdfast.cli.terminal_view import TerminalView, stdout_console
    from holdfast.cli.websocket import connect_websocket

    view: RunView = JsonLinesView()
    if not as_json:
        respond_command = f"holdfast run respond {shlex.quote(run_id)}{server_options()}"
        view = TerminalView(stdout_console(), respond_command=respond_command)
    connect = connect_websocket if transport == "ws" else None
    async with connect_async() as client:
        handle = client.run(run_id)
        view.show_run(await handle.get())
        events = handle.stream(after=after, on_connection=view.notify, connect=connect, retry_seconds=math.inf)
        try:
            async with aclosing(events):
                async for event in events:
                    after = event.seq
                    view.show_event(event.data)
        except asyncio.CancelledError:
            view.notify(f"detached, the run continues: {command} --after {after}")
            raise
        return await _ended(client, run_id)


async def _ended(client: "Client", run_id: RunId) -> Run:
    """Return the run after its last event; the server may restart meanwhile."""
    client.retry_seconds = math.inf
    return await client.run(run_id).get()


@command(run)
def respond(
    run_id: RunArgument,
    answer: Annotated[str | None, typer.Argument(metavar="ANSWER", help="The answer to a question, as text.")] = None,
    approve: Annotated[bool, typer.Option("--approve", help="Approve the tool call.")] = False,
    always: Annotated[
        bool, typer.Option("--always", help="Approve the tool call, and allow calls like it from now on.")
    ] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Refuse the tool call.")] = False,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="With `--deny`: the reason, for the agent.")
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Give an MCP server what it asks for.")] = False,
    field: Annotated[
        list[str] | None,
        typer.Option(
            "--field",
            "-f",
            metavar="NAME=TEXT",
            help="With `--accept`: a value, as `NAME=TEXT` or as `NAME:=JSON`; may be repeated.",
        ),
    ] = None,
    decline: Annotated[bool, typer.Option("--decline", help="Refuse what an MCP server asks for.")] = False,
    data: Annotated[
        str | None, typer.Option(metavar="JSON", help="The whole response as JSON, for any other question.")
    ] = None,
    interrupt: Annotated[
        str | None, typer.Option(metavar="ID", help="The question; needed only if several are open.")
    ] = None,
) -> None:
    """Answer a question of a waiting run, or decide about its tool call. Only the first answer counts."""
    if reason is not None and not deny:
        raise typer.BadParameter("it needs `--deny`", param_hint="--reason")
    if field and not accept:
        raise typer.BadParameter("it needs `--accept`", param_hint="--field")
    decisions = {"approve": approve, "always": always, "deny": deny}
    responses: list[Json] = [{"decision": name} for name, chosen in decisions.items() if chosen]
    if reason is not None:
        responses = [{**each, "reason": reason} for each in responses]
    if accept:
        responses.append({"action": "accept", "content": _form_content(field or ())})
    if decline:
        responses.append({"action": "decline"})
    if data is not None:
        responses.append(decode_json(data, option="--data"))
    if answer is not None:
        responses.append(answer)
    if len(responses) != 1:
        remedy = "give ANSWER, or one of `--approve`, `--always`, `--deny`, `--accept`, `--decline` and `--data`"
        raise typer.BadParameter(f"a response is one answer: {remedy}", param_hint="ANSWER")
    answered = _respond(RunId(run_id), responses[0], interrupt)
    print_done(answered, f"answered: {answered.message or answered.id}")


def _form_content(fields: Sequence[str]) -> Json:
    try:
        return form_content(fields)
    except Invalid as exc:
        raise typer.BadParameter(exc.message, param_hint="--field") from exc


def _respond(run_id: RunId, response: Json, interrupt: str | None) -> Interrupt:
    with connect() as client:
        try:
            return client.run(run_id).respond(response, interrupt_id=interrupt)
        except Invalid as refused:
            if refused.code != Invalid.code:
                raise
            remedy = f"`holdfast run show {shlex.quote(run_id)}{server_options()}` shows the command that answers"
            raise Invalid(f"{refused.message}: {remedy}", **refused.details) from refused
