"""`holdfast run …`: commands about one run."""

import asyncio
import shlex
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Protocol

import typer

from holdfast.cli.output import JsonFlag, print_line, print_message
from holdfast.domain.ids import RunId
from holdfast.domain.run import Run, RunStatus


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


EXIT_CODES: Final[Mapping[RunStatus, int]] = {RunStatus.COMPLETED: 0, RunStatus.FAILED: 1, RunStatus.CANCELLED: 3}
EXIT_DETACHED: Final = 130
"""The conventional exit code after Ctrl-C."""

run: Final = typer.Typer(help="Follow a run.", no_args_is_help=True)


@run.callback()
def _run_group() -> None:
    """Keep `follow` a subcommand: Typer would merge a single command into its group."""


@run.command()
def follow(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="The run to follow.")],
    transport: Annotated[Literal["sse", "ws"], typer.Option(help="The transport of the event stream.")] = "sse",
    url: Annotated[str, typer.Option(help="The URL of the server.")] = "http://127.0.0.1:5050",
    after: Annotated[int, typer.Option(min=0, help="Continue after this event number; 0 starts with the first.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Show the past and new events of a run until it ends. Reconnects if the server restarts.

    Exit codes: 0 the run completed, 1 it failed or cannot be followed, 2 invalid command line, 3 it was cancelled,
    4 stdout could not be written, 130 Ctrl-C. After 4 and 130 the run continues.
    """
    if not run_id:
        raise typer.BadParameter("the run id is empty: pass the id of a run", param_hint="RUN_ID")
    options = f"{shlex.quote(run_id)} --transport {transport} --url {shlex.quote(url)}"
    command = f"holdfast run follow {options}{' --json' if as_json else ''}"
    try:
        ended = asyncio.run(_follow(RunId(run_id), transport, url, after, command=command, as_json=as_json))
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_DETACHED) from None
    reason = f": {ended.error.message} [{ended.error.code}]" if ended.error is not None else ""
    print_message(f"run {ended.id} {ended.status}{reason}")
    raise typer.Exit(EXIT_CODES[ended.status])


async def _follow(run_id: RunId, transport: str, url: str, after: int, *, command: str, as_json: bool) -> Run:
    from holdfast.cli.client import ServerClient
    from holdfast.cli.follow import RunFollower, read_first
    from holdfast.cli.terminal_view import TerminalView, stdout_console

    view: RunView = JsonLinesView() if as_json else TerminalView(stdout_console())
    async with ServerClient(url) as remote:
        run = await read_first(remote, run_id)
        follower = RunFollower(remote, run, transport=transport, after=after, notify=view.notify)
        view.show_run(run)
        try:
            async for event in follower.events():
                view.show_event(event)
        except asyncio.CancelledError:
            view.notify(f"detached, the run continues: {command} --after {follower.position}")
            raise
        return follower.run
