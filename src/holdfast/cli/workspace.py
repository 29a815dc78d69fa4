"""`holdfast init`, `doctor`, `version` and `openapi`: commands that need no server."""

import asyncio
import logging
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import typer

import holdfast
from holdfast.cli.output import (
    DatabaseOption,
    JsonFlag,
    WorkspaceOption,
    print_json,
    print_line,
    print_message,
    strip_control_chars,
)
from holdfast.domain.agent import SCRIPT_PREFIX


def _folder_argument(folder: str) -> Path:
    if not folder:  # an unset shell variable must not mean the current folder
        raise typer.BadParameter("the folder name is empty: use `.` for the current folder")
    return Path(folder)


def _model_option(model: str) -> str:
    from holdfast.workspace.settings import ModelName

    with suppress(msgspec.ValidationError):
        if not msgspec.convert(model, ModelName).startswith(SCRIPT_PREFIX):
            return model
    raise typer.BadParameter(f"`{model}` is not `provider:name` of a real model: for example `openai:gpt-5`")


def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            parser=_folder_argument,
            help="The folder to create; it may exist, if it has no workspace yet.",
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            parser=_model_option,
            help="The model of its agents, `provider:name`; without it they follow scripts, which need no key.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a workspace in DIR, with agents that answer without a key, and instructions for a real model."""
    from holdfast.workspace.folder import Workspace

    created = Workspace.create(folder, model=model)
    if as_json:
        print_json({"workspace": str(created.path)})
    else:
        print_message(f"created a workspace in {folder}")
        print_message(f"its agents:          {', '.join(sorted(each.name for each in created.agents.iterdir()))}")
        print_message(f"serve it:            holdfast serve --workspace {shlex.quote(str(folder))}")
        print_message(f"set up a real model: {folder / 'agents' / 'assistant' / 'README.md'}")


def version(as_json: JsonFlag = False) -> None:
    """Print the version of Holdfast."""
    if as_json:
        print_json({"name": "holdfast", "version": holdfast.__version__})
    else:
        typer.echo(holdfast.__version__)


def print_version(wanted: bool) -> None:
    """Print the version and exit, for the option `--version`."""
    if wanted:
        typer.echo(f"holdfast {holdfast.__version__}")
        raise typer.Exit


def openapi(
    events: Annotated[bool, typer.Option("--events", help="The JSON Schema of the events of runs instead.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Print the OpenAPI document of the server; with `--json`, on one line."""
    from holdfast.api.events_schema import events_schema_json
    from holdfast.api.openapi import openapi_json

    document = events_schema_json() if events else openapi_json()
    if as_json:
        print_line(msgspec.json.format(document, indent=-1))
    else:
        typer.echo(document.decode(), nl=False)


def doctor(
    workspace: WorkspaceOption = Path(),
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Check everything that a server needs, and print problems with their remedies. Running servers are not affected.

    Exit codes: 0 no check failed, 1 at least one failed.
    """
    from holdfast.bootstrap.doctor.checks import diagnose
    from holdfast.bootstrap.doctor.finding import Severity

    logging.getLogger("holdfast").addHandler(logging.NullHandler())  # the findings say it already
    findings = asyncio.run(diagnose(workspace, database=database, announce=print_message))
    healthy = all(finding.verdict is not Severity.FAILED for finding in findings)
    if as_json:
        print_json({"healthy": healthy, "findings": findings})
    else:
        for finding in findings:
            typer.echo(strip_control_chars(f"{finding.verdict:<8} {finding.about:<12} {finding.message}"))
            if finding.remedy is not None:
                typer.echo(strip_control_chars(f"{'':<8} {'':<12} → {finding.remedy}"))
    raise typer.Exit(0 if healthy else 1)
