"""One client process and one server, shared by all tests of AG-UI."""

from collections.abc import AsyncIterator

import pytest

from tests.api.ag_ui.driver import Driver, driving, need_client
from tests.api.conftest import write_agents as write_common_agents
from tests.api.site import Site, serve
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.support.database_probe import open_probe
from tests.support.log_check import check_log


@pytest.fixture(scope="session")
async def driver() -> AsyncIterator[Driver]:
    """Yield the driver of the client process."""
    need_client()
    async with driving(Driver) as clients:
        yield clients


def write_agents(workshop: AgentWorkspace) -> AgentWorkspace:
    """Write the agents of the tests."""
    write_common_agents(workshop)
    workshop.agent(say("well", think="let me see"), name="thinker")
    refused = {"code": "MODEL_REFUSED", "message": "enough"}
    workshop.agent(say("half of", error=refused), name="breaking")
    searching = calling(call("pick_color", prompt="which?"), say="one moment")
    workshop.agent(searching, say("so be it"), name="picker")
    both = calling(call("pick_color", prompt="one"), call("pick_color", prompt="two"))
    workshop.agent(both, say("two colors"), name="pair")
    mixed = calling(call("pick_color", prompt="one"), call("ask_user", question="sure?"))
    workshop.agent(mixed, say("mixed"), name="mixed", tools=["ask_user"])
    questions = calling(call("ask_user", question="who?"), call("ask_user", question="what?", options=["a", "b"]))
    workshop.agent(questions, say("good"), name="curious", tools=["ask_user"])
    asking = [calling(call("ask_user", question=question)) for question in ("once?", "twice?")]
    workshop.agent(*asking, say("at last"), name="insisting", tools=["ask_user"])
    note = calling(call("log_write", message="hello"))
    permissions = {"ask": ["log_write"]}
    workshop.agent(note, say("noted"), name="careful", tools=["log_write"], permissions=permissions)
    printing = calling(call("bash", command="echo one; echo two"))
    workshop.agent(printing, say("printed"), name="operator", tools=["bash"], permissions={"allow": ["bash"]})
    delegated = calling(call("agent_spawn", agent="asker", input="ask"))
    workshop.agent(delegated, say("delegated"), name="delegating", tools=["agent_spawn"])
    directed = calling(call("agent_spawn", agent="delegating", input="delegate"))
    workshop.agent(directed, say("directed"), name="director", tools=["agent_spawn"])
    nested = calling(call("agent_spawn", agent="bot", input="help"), call("ask_user", question="go on?"))
    workshop.agent(nested, say("helped"), name="leader", tools=["agent_spawn", "ask_user"])
    return workshop


@pytest.fixture(scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Yield a shared server; afterwards the log must be consistent."""
    folder = tmp_path_factory.mktemp("ag-ui")
    workshop = write_agents(AgentWorkspace(folder / "workspace", folder / "holdfast.db"))
    async with serve(workshop) as shared:
        yield shared
    async with open_probe(folder / "holdfast.db") as probe:
        await check_log(probe)
