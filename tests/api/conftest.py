"""One server for all tests that leave it as it was, or nearly: each works on threads of its own."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TypeAlias

import pytest

from holdfast.bootstrap import open_store
from tests.api.site import Site, served
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.support.database_probe import open_probe
from tests.support.log_check import check_log
from tests.support.postgres import PostgresServer

BACKENDS = ("sqlite", "postgres")
NewDatabase: TypeAlias = Callable[[], Awaitable[str]]

_numbers = count(1)


def fill(workshop: AgentWorkspace) -> AgentWorkspace:
    """Write the agents that tests of the API talk to."""
    workshop.agent(say("hello you", usage={"input_tokens": 7, "output_tokens": 2}))
    workshop.agent(calling(call("ask_user", question="which?")), say("so be it"), name="asker", tools=["ask_user"])
    workshop.agent(say("one moment", stall=True), name="staller")
    workshop.agent({"error": {"code": "MODEL_REFUSED", "message": "no"}}, name="failing")
    plan = call("plan_create", title="bake", subtasks=["mix"])
    workshop.agent(calling(plan), say("planned"), name="planner", tools=["plan_create"])
    steps = [plan, call("plan_check", task_id=1, subtask=0), call("plan_start", task_id=1)]
    done = call("plan_complete", task_id=1, conclusion="a cake")
    names = ["plan_create", "plan_check", "plan_start", "plan_complete"]
    workshop.agent(*(calling(each) for each in [*steps, done]), say("done"), name="worker", tools=names)
    kept = call("create_artifact", type="doc", title="notes", content="# notes")
    workshop.agent(calling(kept), say("kept"), name="writer", tools=["create_artifact"])
    spawned = call("agent_spawn", agent="bot", input="help")
    workshop.agent(calling(spawned), say("helped"), name="parent", tools=["agent_spawn"])
    return workshop


@pytest.fixture(autouse=True)
def _nothing_breaks(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail for what breaks where nobody sees it: in a callback of the loop, or in an answer that has begun."""
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if _is_break(record)] == []


def _is_break(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR and record.name in ("asyncio", "uvicorn.error")


@pytest.fixture(scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Yield the server that tests share, on SQLite. What they leave is whole."""
    folder = tmp_path_factory.mktemp("api")
    async with served(fill(AgentWorkspace(folder / "workspace", folder / "holdfast.db"))) as shared:
        yield shared
    async with open_probe(folder / "holdfast.db") as probe:
        await check_log(probe)


@pytest.fixture(params=BACKENDS)
async def anywhere(request: pytest.FixtureRequest, tmp_path: Path, api_database: str) -> AsyncIterator[Site]:
    """Yield a server on every backend in turn."""
    where = tmp_path / "holdfast.db" if request.param == "sqlite" else api_database
    async with served(fill(AgentWorkspace(tmp_path / "workspace", where))) as own:
        yield own


@pytest.fixture(scope="session")
def new_database(postgres: PostgresServer) -> NewDatabase:
    """Return what makes a database that no other server uses: its workers would take what is not theirs."""
    return lambda: postgres.create_database(f"api_{next(_numbers)}")


@pytest.fixture(scope="session")
async def api_database(new_database: NewDatabase) -> str:
    """Return a database that tests use in turn, each on threads of its own."""
    url = await new_database()
    async with open_store(url):
        return url


@pytest.fixture(scope="session", params=BACKENDS)
async def anywhere_shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase
) -> AsyncIterator[Site]:
    """Yield a server that tests share, on every backend in turn."""
    folder = tmp_path_factory.mktemp("shared")
    where = folder / "holdfast.db" if request.param == "sqlite" else await new_database()
    async with served(fill(AgentWorkspace(folder / "workspace", where))) as shared:
        yield shared
