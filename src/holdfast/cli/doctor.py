"""`holdfast doctor`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.printing import JsonFlag, harmless, print_json


def doctor(
    workspace: Annotated[
        Path, typer.Option("--workspace", "-w", readable=False, help="The folder to look at.")
    ] = Path(),
    database: Annotated[
        str | None,
        typer.Option(help="A `postgresql://` URL, or a SQLite file; the workspace's own, unless given."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Look at all that a server needs, and say what is wrong and what to do. A server that runs is not disturbed.

    Exit codes: 0 nothing failed, 1 something did.
    """
    from holdfast.bootstrap.doctor.examination import examine
    from holdfast.bootstrap.doctor.finding import Verdict

    findings = asyncio.run(examine(workspace, database=database))
    healthy = all(finding.verdict is not Verdict.FAILED for finding in findings)
    if as_json:
        print_json({"healthy": healthy, "findings": findings})
    else:
        for finding in findings:
            typer.echo(harmless(f"{finding.verdict:<8} {finding.about:<12} {finding.message}"))
            if finding.remedy is not None:
                typer.echo(harmless(f"{'':<8} {'':<12} → {finding.remedy}"))
    raise typer.Exit(0 if healthy else 1)
