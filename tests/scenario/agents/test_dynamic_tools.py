"""Remote tools that change during a run."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from holdfast.control.remote_methods import RemoteMethod
from holdfast.domain.content import Json
from holdfast.tools.tool import ToolResult
from tests.scenario.agents.fake_tools import FakeTool, answers
from tests.scenario.agents.workshop import SPACE, Floor, Workshop, call, calling, say

LOOK = RemoteMethod(name="look", description="Looks.", read_only=True)


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    """Yield what clients are connected for."""
    with ExitStack() as clients:
        yield clients


def connect(floor: Floor, clients: ExitStack) -> None:
    """Have a client that offers a method."""
    methods = floor.holdfast.remote_methods
    methods.offer(clients.enter_context(methods.connected(SPACE, send=lambda _: None)), [LOOK])


@pytest.mark.parametrize("named", ["remote__*", "remote__look", "*"])
async def test_a_method_offered_during_a_run_is_shown_from_the_next_call(
    workshop: Workshop, clients: ExitStack, named: str
) -> None:
    async def come(arguments: dict[str, Json]) -> ToolResult:
        connect(floor, clients)
        return ToolResult(content="here I am")

    workshop.agent(calling(call("come")), say("done"), tools=["come", named], tools_shown=1_000)
    async with workshop.open(FakeTool("come", come)) as floor:
        run = await floor.play()
        before, after = [[tool["name"] for tool in (await floor.context(run, number)).tools] for number in (0, 1)]
    assert run.output == "done"
    assert {*after} - {*before} == {"remote__look"}


async def test_a_method_hidden_by_a_local_tool_is_logged(
    workshop: Workshop, clients: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    workshop.agent(
        calling(call("remote__look")),
        say("{$last_tool}"),
        tools=["remote__*"],
        permissions={"allow": ["remote__look"]},
    )
    async with workshop.open(answers("remote__look", "ours")) as floor:
        connect(floor, clients)
        assert (await floor.play()).output == "ours"
    assert "the agent `bot` does not have the remote tool `remote__look`: a local tool of this name wins" in caplog.text
