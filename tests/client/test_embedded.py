"""`holdfast.open`: agents and tools of the program, and what only one process has."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

import holdfast
from holdfast import Agent, Invalid, NotFound, RunFailed, ToolContext, tool
from holdfast.domain.errors import StoreOwned


@dataclass
class Quote:
    symbol: str
    value: float


keys: list[str] = []


@tool(idempotent=True)
def price(call: ToolContext, symbol: str) -> float:
    """Return the price of a stock."""
    keys.append(call.key)
    return 12.5


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    turns = [
        {"call": [{"name": "price", "arguments": {"symbol": "ACME"}}]},
        {"say": '{"symbol": "ACME", "value": {$last_tool}}'},
    ]
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "script.json").write_text(json.dumps({"turns": turns, "after_last": "repeat"}))
    return folder


def broker(**options: object) -> Agent:
    return Agent("broker", instructions="You quote.", model="scripted:script.json", tools=[price], **options)  # type: ignore[arg-type]


async def test_an_agent_of_the_program_calls_its_function(workspace: Path) -> None:
    keys.clear()
    async with holdfast.open(workspace, agents=[broker(output=Quote, description="quotes")]) as hf:
        assert await hf.ask("broker", "What is ACME worth?", returns=Quote) == Quote("ACME", 12.5)
        assert [(agent.name, agent.description) async for agent in hf.agents.list()] == [("broker", "quotes")]
    assert len(keys) == 1


async def test_a_run_goes_on_when_the_program_starts_again(workspace: Path) -> None:
    async with holdfast.open(workspace, agents=[broker()], workers=0) as hf:
        run_id = (await hf.start("broker", "later")).id
    async with holdfast.open(workspace, agents=[broker()]) as hf:
        assert json.loads(str(await hf.run(run_id).result())) == {"symbol": "ACME", "value": 12.5}


async def test_an_agent_in_a_folder_can_use_a_tool_of_the_program(workspace: Path) -> None:
    agent = workspace / "agents" / "trader"
    agent.mkdir(parents=True)
    (agent / "AGENT.md").write_text("Trade.")
    (agent / "agent.json").write_text('{"model": "scripted:../../script.json", "tools": ["price"]}')
    async with holdfast.open(workspace, tools=[price]) as hf:
        assert "12.5" in str(await hf.ask("trader", "go"))


async def test_a_space_of_its_own(workspace: Path) -> None:
    async with holdfast.open(workspace, agents=[broker()]) as hf:
        await hf.spaces.create("acme")
    async with holdfast.open(workspace, agents=[broker()], space="acme") as hf:
        run = await hf.start("broker", "go")
        assert (await run.get()).space_id == "acme"


async def test_environment_variables_of_clients_do_not_matter(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SPACE", "elsewhere")
    monkeypatch.setenv("HOLDFAST_API_KEY", "hf_nothing")
    async with holdfast.open(workspace, agents=[broker()]) as hf:
        assert "12.5" in str(await hf.ask("broker", "go"))


async def test_definitions_that_cannot_be_used_are_refused(workspace: Path) -> None:
    with pytest.raises(Invalid, match="must be 1 to 64 lower-case letters"):
        Agent("No Name", instructions="x", model="scripted:s.json")
    with pytest.raises(Invalid, match="has no instructions"):
        Agent("a", instructions=" ", model="scripted:s.json")
    with pytest.raises(Invalid, match="provider:name"):
        Agent("a", instructions="x", model="gpt")
    with pytest.raises(Invalid, match="max_iterations"):
        Agent("a", instructions="x", model="scripted:s.json", limits={"max_iterations": 0})

    def plain(symbol: str) -> str:
        """Return nothing of interest."""
        return symbol

    with pytest.raises(Invalid, match="`plain` in `tools` is not a tool .*: decorate it with `@tool`"):
        Agent("a", instructions="x", model="scripted:s.json", tools=[plain])  # type: ignore[list-item]
    with pytest.raises(Invalid, match="`plain` in `tools`"):
        async with holdfast.open(workspace, agents=[broker()], tools=[plain]):  # type: ignore[list-item]
            pass
    with pytest.raises(Invalid, match="makes a function a tool, not `3`"):
        tool(3)  # type: ignore[call-overload]
    with pytest.raises(Invalid, match="`Queue` has no JSON Schema: use types of JSON, dataclasses.*pydantic$"):
        Agent("a", instructions="x", model="scripted:s.json", output=asyncio.Queue)

    @tool(name="price")
    def other() -> None:
        """Do something else."""

    with pytest.raises(Invalid, match="two tools are named `price`"):
        async with holdfast.open(workspace, agents=[broker()], tools=[other]):
            pass
    (workspace / "agents" / "broker").mkdir()
    with pytest.raises(Invalid, match="rename one of them"):
        async with holdfast.open(workspace, agents=[broker()]):
            pass


async def test_a_folder_without_agents_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="holdfast init"):
        async with holdfast.open(tmp_path / "none"):
            pass


async def test_a_second_process_is_refused(workspace: Path) -> None:
    async with holdfast.open(workspace, agents=[broker()]):
        with pytest.raises(StoreOwned):
            async with holdfast.open(workspace, agents=[broker()]):
                pass


async def test_an_answer_that_never_matches_fails(workspace: Path) -> None:
    (workspace / "script.json").write_text(json.dumps({"turns": [{"say": "no JSON"}], "after_last": "repeat"}))
    async with holdfast.open(workspace, agents=[broker(output=Quote)]) as hf:
        with pytest.raises(RunFailed, match="OUTPUT_INVALID"):
            await hf.ask("broker", "go", returns=Quote)


async def test_an_embedded_workspace_on_postgresql(workspace: Path, postgres_url: str) -> None:
    async with holdfast.open(workspace, agents=[broker()], database=postgres_url) as hf:
        assert "12.5" in str(await hf.ask("broker", "go"))
