"""`holdfast`: the command line application and its exit codes.

Exit codes: 0 success, 1 refused or failed (stderr says why), 2 invalid command line, 4 stdout could not be written.
Those of `run follow` mirror the run.
"""

import sys
from typing import Final, NoReturn

import typer

from holdfast.cli.keys import key
from holdfast.cli.output import (
    EXIT_STDOUT_FAILED,
    ServerRefused,
    StdoutError,
    detect_stdout_errors,
    discard_stdout,
    escape_unencodable,
    print_message,
)
from holdfast.cli.runs import run
from holdfast.cli.serve import serve
from holdfast.cli.workspace import doctor, init, openapi, version
from holdfast.domain.errors import HoldfastError

app: Final = typer.Typer(
    name="holdfast",
    help="A durable runtime for AI agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # usage errors stay plain single lines
)
for _command in (serve, init, doctor, openapi, version):
    app.command()(_command)
app.add_typer(run, name="run")
app.add_typer(key, name="key")


def main() -> None:
    """Run the command line application."""
    escape_unencodable()
    detect_stdout_errors()
    try:
        app(prog_name="holdfast")
    except HoldfastError as exc:
        _fail(exc.message, exc.code)
    except ServerRefused as exc:
        _fail(exc.detail.message, exc.detail.code)
    except StdoutError as exc:
        discard_stdout()
        if not exc.quiet:
            print_message(f"holdfast: cannot print to stdout: {exc}")
        sys.exit(EXIT_STDOUT_FAILED)


def _fail(message: str, code: str) -> NoReturn:
    print_message(f"holdfast: {message} [{code}]")
    sys.exit(1)
