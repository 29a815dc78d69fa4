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
    """Where a run is shown that is followed."""

    def show_run(self, run: Run) -> None:
        """Show what is followed."""

    def show_event(self, data: bytes) -> None:
        """Show an event, as the log holds it."""

    def notify(self, words: str) -> None:
        """Say something about the following itself."""


class JsonLinesView:
    """`RunView` for programs: one event on each line, byte for byte as in the log."""

    def show_run(self, run: Run) -> None:
        """Print nothing: the log says it all."""

    def show_event(self, data: bytes) -> None:
        """Print an event."""
        print_line(data)

    def notify(self, words: str) -> None:
        """Say something on stderr."""
        print_message(words)


EXIT_CODES: Final[Mapping[RunStatus, int]] = {RunStatus.COMPLETED: 0, RunStatus.FAILED: 1, RunStatus.CANCELLED: 3}
EXIT_DETACHED: Final = 130
"""What a shell expects of a command that Ctrl-C ended."""

run: Final = typer.Typer(help="Follow a run.", no_args_is_help=True)


@run.callback()
def _run_group() -> None:
    """Keep `follow` a command of its own, although there is no other yet."""


@run.command()
def follow(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="The run to follow.")],
    transport: Annotated[Literal["sse", "ws"], typer.Option(help="How events come; both bring the same.")] = "sse",
    url: Annotated[str, typer.Option(help="The address of the server.")] = "http://127.0.0.1:5050",
    after: Annotated[int, typer.Option(min=0, help="Go on after this event; 0 begins with the first.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Show what a run did, then what it does, until it ends. A server that goes away is waited for.

    Exit codes: 0 the run completed, 1 it failed or cannot be followed, 2 the command line is wrong, 3 it was cancelled,
    4 it cannot be shown, because stdout takes nothing, 130 Ctrl-C. These two only end the following: the run goes on.
    """
    if not run_id:
        raise typer.BadParameter("a run has an id", param_hint="RUN_ID")
    where = f"{shlex.quote(run_id)} --transport {transport} --url {shlex.quote(url)}"
    again = f"holdfast run follow {where}{' --json' if as_json else ''}"
    try:
        ended = asyncio.run(_follow(RunId(run_id), transport, url, after, _make_view(as_json=as_json), again=again))
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_DETACHED) from None
    print_message(_end_message(ended))
    raise typer.Exit(EXIT_CODES[ended.status])


async def _follow(run_id: RunId, transport: str, url: str, after: int, view: RunView, *, again: str) -> Run:
    from holdfast.cli.client import ServerClient
    from holdfast.cli.follow import RunFollower, read_first

    async with ServerClient(url) as remote:
        found = await read_first(remote, run_id)
        following = RunFollower(remote, found, transport=transport, after=after, notify=view.notify)
        view.show_run(found)
        try:
            async for event in following.events():
                view.show_event(event)
        except asyncio.CancelledError:
            view.notify(f"detached, the run goes on: {again} --after {following.position}")
            raise
        return following.run


def _make_view(*, as_json: bool) -> RunView:
    from holdfast.cli.terminal_view import TerminalView, stdout_console

    return JsonLinesView() if as_json else TerminalView(stdout_console())


def _end_message(ended: Run) -> str:
    reason = f": {ended.error.message} [{ended.error.code}]" if ended.error is not None else ""
    return f"run {ended.id} is {ended.status}{reason}"
