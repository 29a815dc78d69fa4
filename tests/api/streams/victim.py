"""A server that will be killed, whole, forked from a process that has imported everything."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

import holdfast.store.postgres.database
import holdfast.store.sqlite.database  # noqa: F401 - imported on use otherwise, by each victim again
from holdfast.api.app import create_app
from holdfast.api.middleware import HostOriginMiddleware
from holdfast.api.use_cases import UseCases
from holdfast.bootstrap.holdfast import PrincipalUseCases, make_live_streams
from holdfast.bootstrap.workspace import Options
from holdfast.bootstrap.workspace import open as open_workspace
from holdfast.control.principal import LOCAL_PRINCIPAL
from tests.api.site import answering
from tests.support.fork_server import SendMessage


class _Placeholder:
    """Becomes a use case once the workspace is open."""


# Making the app takes longer than a whole life does: it is made before the fork, over use cases that are still empty.
_EMPTY: Final = UseCases(*(_Placeholder() for _ in UseCases._fields))  # type: ignore[arg-type]
_APP: Final = create_app(_EMPTY)


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What a victim serves."""

    workspace: str
    database: str
    address: str
    """The file that says where it answers."""
    workers: int
    lease: float = 10.0


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server answers, and who it is."""

    host: str
    pid: int


def work(raw: Any, say: SendMessage) -> None:
    """Serve until killed."""
    asyncio.run(_serve(msgspec.convert(raw, Serving)))


async def _serve(serving: Serving) -> None:
    options = Options(
        workers=serving.workers,
        lease=timedelta(seconds=serving.lease),
        heartbeat=timedelta(seconds=serving.lease / 5),
    )
    database = serving.database if "://" in serving.database else Path(serving.database)
    async with (
        open_workspace(serving.workspace, database=database, options=options) as holdfast,
        make_live_streams(holdfast) as feeds,
    ):
        for empty, use_case in zip(
            _EMPTY, PrincipalUseCases(holdfast, feeds, version="0").as_principal(LOCAL_PRINCIPAL), strict=True
        ):
            empty.__class__ = type(use_case)
            vars(empty).update(vars(use_case))
        async with answering(HostOriginMiddleware(_APP)) as url:
            _tell(Path(serving.address), Address(host=url.removeprefix("http://"), pid=os.getpid()))
            await asyncio.Event().wait()


def _tell(file: Path, address: Address) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(address))
    new.replace(file)
