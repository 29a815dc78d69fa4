"""`holdfast`.

Exit codes: 0 it was done, 1 it was refused or failed and stderr says why, 2 the command line itself is wrong, 4 stdout
did not take what was printed. Those of `run follow` mirror the run.
"""

import sys
from typing import Final, NoReturn

import typer

from holdfast.cli.doctor import doctor
from holdfast.cli.keys import key
from holdfast.cli.output import UNPRINTED, Unprinted, give_up_stdout, take_any_text, watch_stdout
from holdfast.cli.printing import say
from holdfast.cli.refusal import ServerRefused
from holdfast.cli.runs import run
from holdfast.cli.serve import serve
from holdfast.cli.workspace import init, openapi, version
from holdfast.domain.errors import HoldfastError

app: Final = typer.Typer(
    name="holdfast",
    help="A durable runtime for AI agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # what is wrong with a command line is said in one line, which a pipe can carry
)
for _command in (serve, init, doctor, openapi, version):
    app.command()(_command)
app.add_typer(run, name="run")
app.add_typer(key, name="key")


def main() -> None:
    """Run the command that the command line names."""
    take_any_text()
    watch_stdout()
    try:
        app(prog_name="holdfast")
    except HoldfastError as exc:
        _fail(exc.message, exc.code)
    except ServerRefused as exc:
        _fail(exc.problem.message, exc.problem.code)
    except Unprinted as exc:
        give_up_stdout()
        if not exc.quiet:
            say(f"holdfast: cannot print to stdout: {exc}")
        sys.exit(UNPRINTED)


def _fail(message: str, code: str) -> NoReturn:
    say(f"holdfast: {message} [{code}]")
    sys.exit(1)
