"""`holdfast serve`: run the server of a workspace."""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

import holdfast
from holdfast.bootstrap.logs import LogFormat, configure_logging
from holdfast.cli.output import DatabaseOption, JsonFlag, PoolOption, WorkspaceOption, print_json, print_message
from holdfast.domain.worker import DEFAULT_POOL

_log: Final = logging.getLogger("holdfast.server")


def serve(
    workspace: WorkspaceOption = Path(),
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on; beyond this machine, keys are required.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="The port to listen on; 0 selects a free one.")
    ] = 5050,
    database: DatabaseOption = None,
    bus: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A NATS server, such as `nats://host:4222/cluster`, that carries events between processes.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=0, max=1000, help="Concurrent runs; 0 leaves them to other processes."),
    ] = None,
    pool: PoolOption = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="An origin whose pages may use this server; may be repeated."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A host name of this server; may be repeated."),
    ] = None,
    rate_limit: Annotated[
        str | None, typer.Option(metavar="RATE", help="The default rate limit of a key, such as `600/minute`.")
    ] = None,
    queue_depth: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", min=1, help="The maximum number of queued runs per space; by default unlimited."
        ),
    ] = None,
    oidc: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", readable=False, help="A file with the OIDC issuer whose tokens are accepted like keys."
        ),
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="Plain text, or JSON lines.")] = LogFormat.TEXT,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log only warnings and errors.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Serve a workspace: run its agents and serve the API at /api. SIGTERM and Ctrl-C shut it down gracefully."""
    from holdfast.bootstrap.server import serve as serve_workspace
    from holdfast.bootstrap.server_options import ServerOptions

    configure_logging(log_format, level=logging.WARNING if quiet else logging.INFO)
    options = ServerOptions(
        workspace=workspace,
        host=host,
        port=port,
        database=database,
        bus=bus,
        workers=workers,
        pools=pool or [DEFAULT_POOL],
        cors_origins=cors_origin or [],
        allowed_hosts=allow_host or [],
        rate_limit=rate_limit,
        queue_depth=queue_depth,
        oidc=oidc,
        version=holdfast.__version__,
    )

    def announce(url: str) -> None:
        fields = {"url": url, "workspace": str(workspace.resolve())}
        if as_json:
            print_json({**fields, "pid": os.getpid()})
        elif log_format is LogFormat.JSON:
            extra = {"fields": {**fields, "version": holdfast.__version__}}
            _log.info("serving %s at %s", workspace, url, extra=extra)
        else:
            print_message(f"holdfast {holdfast.__version__} serving {workspace} at {url}")

    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        runner.run(serve_workspace(options, on_ready=announce))


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the factory of uvloop's event loop if it is installed, else of that of Python."""
    try:
        from uvloop import new_event_loop
    except ImportError:  # an extra
        return asyncio.new_event_loop
    return new_event_loop
