"""`holdfast`: the command line application and its exit codes.

Exit codes: 0 success, 1 refused or failed (stderr says why), 2 invalid command line, 4 stdout could not be written,
130 Ctrl-C. Those of `run follow` mirror the run.
"""

import sys
from collections.abc import Callable
from typing import Annotated, Final, NoReturn

import typer
from typer.core import TyperArgument

import holdfast.cli.follow  # noqa: F401  # adds commands to `run`
from holdfast.cli.agents import agent, mcp
from holdfast.cli.chat import chat
from holdfast.cli.command import WholeHelpCommand, WholeHelpGroup, with_common_options
from holdfast.cli.configuration import config, profile
from holdfast.cli.context import context
from holdfast.cli.habits import daemon, reminder, schedule, webhook
from holdfast.cli.inbox import approvals, ask
from holdfast.cli.keys import key
from holdfast.cli.memory import memory
from holdfast.cli.monitor import logs, top
from holdfast.cli.output import (
    EXIT_STDOUT_FAILED,
    StdoutError,
    detect_stdout_errors,
    discard_stdout,
    escape_unencodable,
    open_missing_streams,
    print_message,
)
from holdfast.cli.resources import artifact, file, model, notification, space
from holdfast.cli.runs import run
from holdfast.cli.serve import serve
from holdfast.cli.skills import skill
from holdfast.cli.tasks import task
from holdfast.cli.threads import thread
from holdfast.cli.worker import worker
from holdfast.cli.workspace import doctor, init, openapi, print_version, version
from holdfast.domain.errors import HoldfastError

# Typer prints the Python type of an argument after its name, and has no option against it.
TyperArgument.display_type_rich = lambda self, ctx: None  # type: ignore[method-assign]

app: Final = typer.Typer(
    name="holdfast",
    help="A durable runtime for AI agents.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    cls=WholeHelpGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # usage errors stay plain single lines
)
EXIT_USAGE: Final = 2
"""The exit code of a wrong command line."""
_LOCAL: Final[tuple[Callable[..., None], ...]] = (init, serve, worker, doctor, openapi)
_REMOTE: Final[tuple[Callable[..., None], ...]] = (chat, ask, approvals, logs, top)
for _command in (*_LOCAL, *map(with_common_options, _REMOTE), version):
    app.command(cls=WholeHelpCommand)(_command)
for _name, _group in {
    "run": run,
    "thread": thread,
    "task": task,
    "agent": agent,
    "reminder": reminder,
    "schedule": schedule,
    "daemon": daemon,
    "webhook": webhook,
    "artifact": artifact,
    "file": file,
    "memory": memory,
    "skill": skill,
    "notification": notification,
    "space": space,
    "key": key,
    "config": config,
    "profile": profile,
    "model": model,
    "mcp": mcp,
}.items():
    app.add_typer(_group, name=_name)
app.add_typer(context, name="context")
app.add_typer(context, name="ctx", hidden=True)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run durable AI agents: serve a workspace, talk to its agents, and see everything that they do."""


def run_app() -> None:
    """Run the command line application."""
    open_missing_streams()
    escape_unencodable()
    detect_stdout_errors()
    _check_arguments()
    try:
        app(prog_name="holdfast")
    except HoldfastError as exc:
        remedy = "; `holdfast` takes it from HOLDFAST_API_KEY or a profile" if exc.code == "UNAUTHENTICATED" else ""
        _fail(f"{exc.message}{remedy}", exc.code)
    except StdoutError as exc:
        discard_stdout()
        if not exc.quiet:
            print_message(f"holdfast: cannot print to stdout: {exc}")
        sys.exit(EXIT_STDOUT_FAILED)


def _check_arguments() -> None:
    """Refuse arguments that are not text: no name on a server, and nothing that an agent reads, is anything else."""
    for argument in sys.argv[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError:
            print_message(
                f"Error: `{argument}` is not text in the encoding of the locale: use UTF-8, such as LANG=C.UTF-8"
            )
            sys.exit(EXIT_USAGE)


def _fail(message: str, code: str) -> NoReturn:
    print_message(f"holdfast: {message} [{code}]")
    sys.exit(1)
