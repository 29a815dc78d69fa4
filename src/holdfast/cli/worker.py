"""`holdfast worker`: execute runs of a server on another machine."""

import asyncio
import logging
from pathlib import Path
from typing import Annotated, Final

import typer

import holdfast
from holdfast.bootstrap.logs import LogFormat, configure_logging
from holdfast.cli.output import JsonFlag, PoolOption, print_json, print_message
from holdfast.cli.serve import event_loop_factory
from holdfast.control.errors import Unauthenticated
from holdfast.domain.worker import DEFAULT_POOL

DEFAULT_FOLDER: Final = "holdfast-worker"


def worker(
    url: Annotated[str, typer.Option(envvar="HOLDFAST_URL", metavar="URL", help="The server whose runs to execute.")],
    token: Annotated[
        str | None,
        typer.Option(
            envvar="HOLDFAST_WORKER_TOKEN",
            metavar="KEY",
            help="A key with the scope `worker`; a server on this machine without keys needs none.",
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(metavar="NUMBER", min=1, max=1000, help="Concurrent runs.")] = 16,
    pool: PoolOption = None,
    folder: Annotated[
        Path,
        typer.Option(metavar="PATH", help="The worker's own settings, tools and working folders; created if missing."),
    ] = Path(DEFAULT_FOLDER),
    log_format: Annotated[LogFormat, typer.Option(help="Plain text, or JSON lines.")] = LogFormat.TEXT,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log only warnings and errors.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Execute runs of a server, without its database and its disk. SIGTERM and Ctrl-C drain it.

    Model calls are made from here, with the keys in this process's environment.
    """
    from holdfast.bootstrap.worker import WorkerOptions, run_worker

    configure_logging(log_format, level=logging.WARNING if quiet else logging.INFO)
    options = WorkerOptions(url=url, token=token, folder=folder, concurrency=concurrency, pools=pool or [DEFAULT_POOL])

    def announce() -> None:
        if as_json:
            print_json({"url": url, "concurrency": concurrency})
        else:
            print_message(f"holdfast {holdfast.__version__} working for {url}, {concurrency} runs at a time")

    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        try:
            runner.run(run_worker(options, on_ready=announce))
        except Unauthenticated as exc:
            print_message(f"holdfast: {exc.message}; the worker takes it from HOLDFAST_WORKER_TOKEN [{exc.code}]")
            raise typer.Exit(1) from exc
