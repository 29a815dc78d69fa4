"""`holdfast serve`: run the server of a workspace."""

import asyncio
import logging
import os
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

import holdfast
from holdfast.bootstrap.logs import LogFormat, configure_logging
from holdfast.cli.output import JsonFlag, print_json, print_message

_log: Final = logging.getLogger("holdfast.server")


def serve(
    workspace: Annotated[
        Path, typer.Option("--workspace", "-w", readable=False, help="The folder whose agents are served.")
    ] = Path(),
    host: Annotated[
        str, typer.Option(help="The address to listen on; others than this machine need a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")] = 5050,
    database: Annotated[
        str | None,
        typer.Option(help="A `postgresql://` URL, or a SQLite file; the workspace's own, unless given."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, max=1000, help="Runs at a time; 0 leaves them to other processes.")
    ] = None,
    cors_origin: Annotated[
        list[str] | None, typer.Option(help="A site whose pages may use this server; may be given more than once.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name under which others reach this server; may be given more than once."),
    ] = None,
    rate_limit: Annotated[
        str | None, typer.Option(help="How often a key may ask that does not say so itself, such as `600/minute`.")
    ] = None,
    queue_depth: Annotated[
        int | None, typer.Option(min=1, help="How many runs of each space may wait; any number, unless given.")
    ] = None,
    oidc: Annotated[
        Path | None,
        typer.Option(readable=False, help="A file that says which issuer's tokens are accepted in place of keys."),
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="Lines for people, or JSON for machines.")] = LogFormat.TEXT,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log only warnings and errors.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Serve a workspace: run its agents, and answer at /api. SIGTERM and Ctrl-C let it end in order."""
    import uvloop

    from holdfast.bootstrap.server import serve as serve_workspace
    from holdfast.bootstrap.server_options import ServerOptions

    configure_logging(log_format, level=logging.WARNING if quiet else logging.INFO)
    options = ServerOptions(
        workspace=workspace,
        host=host,
        port=port,
        database=database,
        workers=workers,
        cors_origins=cors_origin or [],
        allowed_hosts=allow_host or [],
        rate_limit=rate_limit,
        queue_depth=queue_depth,
        oidc=oidc,
        version=holdfast.__version__,
    )
    tell = partial(_announce, workspace, as_json=as_json, log_format=log_format)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve_workspace(options, on_ready=tell))


def _announce(workspace: Path, address: str, *, as_json: bool, log_format: LogFormat) -> None:
    """Say where a workspace is served: to who asked for JSON, in the log, or in words."""
    found = {"url": address, "workspace": str(workspace.resolve())}
    if as_json:
        print_json({**found, "pid": os.getpid()})
    elif log_format is LogFormat.JSON:
        said = {**found, "version": holdfast.__version__}
        _log.info("serves %s at %s", workspace, address, extra={"said": said})
    else:
        print_message(f"holdfast {holdfast.__version__} serves {workspace} at {address}")
