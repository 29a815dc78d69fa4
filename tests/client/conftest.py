"""A real server with scripted agents, and every implementation of `HoldfastApi` over it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

import holdfast
from holdfast import Client, HoldfastApi, SyncClient
from tests.api.server_process import Server, run_server
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say

_END: Final = object()


def _write_workspace(folder: Path) -> Path:
    workspace = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    workspace.agent(say("you said {$last_user}"), name="bot")
    workspace.script(say("you said {$last_user}"), agent="bot", after_last="repeat")
    workspace.agent(calling(call("ask_user", question="which?")), say("{$last_tool}"), name="asker", tools=["ask_user"])
    workspace.agent({"error": {"code": "REFUSED", "message": "wrong key"}}, name="failing")
    workspace.agent({"stall": True}, name="slow", tools=["log_write"])
    workspace.agent(say('{"symbol": "ACME", "value": 12.5}'), name="broker")
    workspace.script(say('{"symbol": "ACME", "value": 12.5}'), agent="broker", after_last="repeat")
    return folder / "workspace"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("client")
    _write_workspace(folder)
    with run_server(folder, "--quiet") as up:
        yield up


@pytest.fixture(scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HoldfastApi]:
    async with holdfast.open(_write_workspace(tmp_path_factory.mktemp("embedded"))) as opened:
        yield opened


class Threaded:
    """A sync object with the methods of its async counterpart: each call runs in a thread."""

    def __init__(self, sync: Any) -> None:
        self._sync = sync

    def __getattr__(self, name: str) -> Any:
        return _wrapped(getattr(self._sync, name))


def _wrapped(value: Any) -> Any:
    if not callable(value):
        return value if isinstance(value, str) else Threaded(value)
    if value.__name__ == "run":
        return lambda run_id: Threaded(value(run_id))
    if value.__name__ in ("list", "versions", "stream", "tree", "events", "steps", "children", "artifacts", "follow"):
        return lambda *args, **options: _iterated(iter(value(*args, **options)))

    async def call(*args: Any, **options: Any) -> Any:
        result = await asyncio.to_thread(value, *args, **options)
        return Threaded(result) if type(result).__name__ == "SyncRemoteRun" else result

    return call


async def _iterated(items: Iterator[Any]) -> AsyncIterator[Any]:
    while (item := await asyncio.to_thread(next, items, _END)) is not _END:
        yield item


@pytest.fixture(params=["embedded", "client", "sync client"])
async def hf(request: pytest.FixtureRequest, server: Server, embedded: HoldfastApi) -> AsyncIterator[HoldfastApi]:
    if request.param == "embedded":
        yield embedded
    elif request.param == "client":
        async with Client(server.url) as client:
            yield client
    else:
        with SyncClient(server.url) as sync:
            yield cast(HoldfastApi, Threaded(sync))
