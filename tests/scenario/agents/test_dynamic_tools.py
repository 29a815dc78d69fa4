"""Remote tools that change during a run."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from holdfast.control.remote_methods import RemoteMethod
from holdfast.domain.content import Json
from holdfast.tools.tool import ToolResult
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import FakeTool, fixed_tool

LOOK = RemoteMethod(name="look", description="Looks.", read_only=True)


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    """Yield the methods of connected clients."""
    with ExitStack() as clients:
        yield clients


async def connect(runtime: AgentRuntime, clients: ExitStack) -> None:
    """Connect a client that offers a method."""
    methods = runtime.holdfast.remote_methods
    await methods.offer(clients.enter_context(methods.connected(SPACE, send=lambda _: None)), [LOOK])


@pytest.mark.parametrize("named", ["remote__*", "remote__look", "*"])
async def test_a_method_offered_during_a_run_is_shown_from_the_next_call(
    workspace: AgentWorkspace, clients: ExitStack, named: str
) -> None:
    async def connect_client(arguments: dict[str, Json]) -> ToolResult:
        await connect(runtime, clients)
        return ToolResult(content="here I am")

    workspace.agent(calling(call("come")), say("done"), tools=["come", named], tools_shown=1_000)
    async with workspace.open(FakeTool("come", connect_client)) as runtime:
        run = await runtime.run_to_end()
        before, after = [[tool["name"] for tool in (await runtime.context(run, number)).tools] for number in (0, 1)]
    assert run.output == "done"
    assert {*after} - {*before} == {"remote__look"}


async def test_a_method_hidden_by_a_local_tool_is_logged(
    workspace: AgentWorkspace, clients: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    workspace.agent(
        calling(call("remote__look")),
        say("{$last_tool}"),
        tools=["remote__*"],
        permissions={"allow": ["remote__look"]},
    )
    async with workspace.open(fixed_tool("remote__look", "ours")) as runtime:
        await connect(runtime, clients)
        assert (await runtime.run_to_end()).output == "ours"
    assert "the agent `bot` does not have the remote tool `remote__look`: a local tool of this name wins" in caplog.text
