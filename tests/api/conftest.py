"""Servers for the tests of the API. Tests share them, and each uses its own threads."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TypeAlias

import pytest

from holdfast.domain.content import Json
from tests.api.site import Site, serve
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.support.database_probe import open_probe
from tests.support.log_check import check_log
from tests.support.postgres import PostgresServer
from tests.support.postgres_pools import shared_pool

BACKENDS = ("sqlite", "postgres")
NewDatabase: TypeAlias = Callable[[], Awaitable[str]]

_numbers = count(1)


def write_agents(workshop: AgentWorkspace) -> AgentWorkspace:
    """Write the agents that the tests of the API use."""
    workshop.agent(say("hello you", usage={"input_tokens": 7, "output_tokens": 2}))
    workshop.agent(calling(call("ask_user", question="which?")), say("so be it"), name="asker", tools=["ask_user"])
    workshop.agent(say("one moment", stall=True), name="staller")
    workshop.agent({"error": {"code": "MODEL_REFUSED", "message": "no"}}, name="failing")
    plan = call("plan_create", title="bake", subtasks=["mix"])
    workshop.agent(calling(plan), say("planned"), name="planner", tools=["plan_create"])
    steps = [plan, call("plan_check", task_id=1, subtask=0), call("plan_start", task_id=1)]
    complete = call("plan_complete", task_id=1, conclusion="a cake")
    names = ["plan_create", "plan_check", "plan_start", "plan_complete"]
    workshop.agent(*(calling(each) for each in [*steps, complete]), say("done"), name="worker", tools=names)
    artifact = call("create_artifact", type="doc", title="notes", content="# notes")
    workshop.agent(calling(artifact), say("kept"), name="writer", tools=["create_artifact"])
    named = {"artifact_id": "{$last_user}", "metadata": {"pages": 2}}
    versions = [call("create_artifact", content=f"# notes, draft {number}", **named) for number in (2, 3)]
    workshop.agent(calling(*versions), say("{$last_tool}"), name="editor", tools=["create_artifact"])
    chart = [
        call("write_file", path="out/chart.csv", content="1,2\n"),
        call("create_artifact", type="report", title="chart", path="out/chart.csv"),
        call("create_artifact", type="report", title="secret", path="secret.txt"),
        call("create_artifact", type="report", title="outside", path="../settings.json"),
        call("create_artifact", type="report", title="missing", path="none.txt"),
    ]
    rules: Json = {"deny": ["read_file(secret.txt)"]}
    tools: list[Json] = ["write_file", "create_artifact"]
    workshop.agent(calling(*chart), say("drawn"), name="charter", tools=tools, permissions=rules)
    scan = call("create_artifact", type="report", title="scan", file_id="{$last_user}", metadata={"dpi": 300})
    workshop.agent(calling(scan), say("{$last_tool}"), name="scanner", tools=["create_artifact"])
    spawn = call("agent_spawn", agent="bot", input="help")
    workshop.agent(calling(spawn), say("helped"), name="parent", tools=["agent_spawn"])
    note = call("write_file", path="note", content="a secret recipe")
    workshop.agent(calling(note), say("noted"), name="noter", tools=["write_file"], permissions={"ask": ["write_file"]})
    look = call("grep", pattern="secret")
    workshop.agent(calling(look), say("{$last_tool}"), name="looker", tools=["grep"])
    return workshop


@pytest.fixture(autouse=True)
def _no_error_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail on errors that no response shows: in a callback of the loop, or after a response has started."""
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if _is_server_error(record)] == []


def _is_server_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR and record.name in ("asyncio", "uvicorn.error")


@pytest.fixture(scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Yield the server that tests share, on SQLite; check its log at the end."""
    folder = tmp_path_factory.mktemp("api")
    async with serve(write_agents(AgentWorkspace(folder / "workspace", folder / "holdfast.db"))) as shared:
        yield shared
    async with open_probe(folder / "holdfast.db") as probe:
        await check_log(probe)


@pytest.fixture(params=BACKENDS)
async def backend_site(
    request: pytest.FixtureRequest, tmp_path: Path, shared_memory: Path, api_database: str
) -> AsyncIterator[Site]:
    """Yield a server on each backend."""
    database = shared_memory / "holdfast.db" if request.param == "sqlite" else api_database
    async with serve(write_agents(AgentWorkspace(tmp_path / "workspace", database))) as site:
        yield site


@pytest.fixture(scope="session")
def new_database(postgres: PostgresServer) -> NewDatabase:
    """Return a function that creates a database for one server: workers of another server would claim its runs."""
    return lambda: postgres.create_store(f"api_{next(_numbers)}")


@pytest.fixture(scope="session")
async def api_database(new_database: NewDatabase) -> AsyncIterator[str]:
    """Yield a PostgreSQL database that tests use one after the other, each with its own threads."""
    url = await new_database()
    async with shared_pool(url):
        yield url


@pytest.fixture(scope="session", params=BACKENDS)
async def shared_backend_site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase
) -> AsyncIterator[Site]:
    """Yield a server that tests share, on each backend."""
    folder = tmp_path_factory.mktemp("shared")
    database = folder / "holdfast.db" if request.param == "sqlite" else await new_database()
    async with serve(write_agents(AgentWorkspace(folder / "workspace", database))) as shared:
        yield shared
