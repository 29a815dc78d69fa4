"""A server that a test will kill, forked from a process that has imported everything."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

import holdfast.store.postgres.database
import holdfast.store.sqlite.database  # noqa: F401 - otherwise each forked server imports them again
from holdfast.api.app import create_app, create_routes
from holdfast.api.middleware import HostOriginMiddleware
from holdfast.bootstrap.use_cases import PrincipalUseCases, make_live_streams
from holdfast.bootstrap.workspace import Options, open_workspace
from holdfast.control.principal import LOCAL_PRINCIPAL
from tests.api.site import serve_app
from tests.support.fork_server import SendMessage

create_routes()  # which takes longer than a server lives: before the fork, so that each server has them


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a forked server."""

    workspace: str
    database: str
    address: str
    """The file to which it writes its address."""
    workers: int
    lease: float = 10.0


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The host and port of a server, and its process id."""

    host: str
    pid: int


def work(raw: Any, say: SendMessage) -> None:
    """Serve until killed."""
    asyncio.run(_serve(msgspec.convert(raw, ServerOptions)))


async def _serve(server: ServerOptions) -> None:
    options = Options(
        workers=server.workers,
        lease=timedelta(seconds=server.lease),
        heartbeat=timedelta(seconds=server.lease / 5),
    )
    database = server.database if "://" in server.database else Path(server.database)
    async with (
        open_workspace(server.workspace, database=database, options=options) as holdfast,
        make_live_streams(holdfast) as streams,
    ):
        use_cases = PrincipalUseCases(holdfast, streams, version="0").as_principal(LOCAL_PRINCIPAL)
        async with serve_app(HostOriginMiddleware(create_app(use_cases))) as url:
            _write_address(Path(server.address), Address(host=url.removeprefix("http://"), pid=os.getpid()))
            await asyncio.Event().wait()


def _write_address(file: Path, address: Address) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(address))
    new.replace(file)
