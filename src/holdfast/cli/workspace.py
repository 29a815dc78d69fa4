"""Commands that need no server."""

import shlex
from pathlib import Path
from typing import Annotated

import msgspec
import typer

import holdfast
from holdfast.cli.printing import JsonFlag, print_json, print_line, say


def _named(folder: str) -> Path:
    if not folder:  # a variable that is not set: it must not mean the folder that one happens to be in
        raise typer.BadParameter("a folder has a name; `.` is the one you are in")
    return Path(folder)


def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", parser=_named, help="The folder to make; it may exist, if it holds no workspace yet."
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Make a workspace in DIR: one agent that needs no key, and one for a real model."""
    from holdfast.workspace.folder import Workspace

    made = Workspace.create(folder)
    if as_json:
        print_json({"workspace": str(made.path)})
    else:
        say(f"made a workspace in {folder}")
        say(f"serve it:                holdfast serve --workspace {shlex.quote(str(folder))}")
        say(f"give it a real model:    {folder / 'agents' / 'assistant' / 'README.md'}")


def version(as_json: JsonFlag = False) -> None:
    """Print the version of Holdfast."""
    if as_json:
        print_json({"name": "holdfast", "version": holdfast.__version__})
    else:
        typer.echo(holdfast.__version__)


def openapi(as_json: JsonFlag = False) -> None:
    """Print the OpenAPI document of the server; with `--json`, on one line."""
    from holdfast.api.openapi import encoded

    if as_json:
        print_line(msgspec.json.format(encoded(), indent=-1))
    else:
        typer.echo(encoded().decode(), nl=False)
