"""Packages of model providers: a missing one is an error at load, and an installed one is imported after the start."""

import subprocess
import sys

import pytest

from holdfast.domain.errors import Invalid
from tests.scenario.agents.agent_workspace import AgentWorkspace

PROVIDERS = {"providers": {"mine": {"api": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "MINE_KEY"}}}


def real_agent(workspace: AgentWorkspace) -> None:
    """Write an agent with a model of a provider."""
    workspace.write("settings.json", PROVIDERS)
    workspace.agent(model="mine:gpt-5")


async def test_an_agent_whose_provider_lacks_its_package_does_not_load_and_says_what_to_run(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE_KEY", "k")
    monkeypatch.setitem(sys.modules, "openai", None)  # as if it were not installed
    real_agent(workspace)
    async with workspace.open() as runtime:
        (broken,) = runtime.holdfast.agents.broken()
        with pytest.raises(Invalid) as error:
            await runtime.start()
    assert broken.message == error.value.message
    assert broken.message.startswith("agents/bot/agent.json: `mine:gpt-5` needs the package `openai`")
    assert "run `pip install 'holdfast-agents[openai]'`" in broken.message


async def test_without_its_key_an_agent_loads_and_the_error_of_a_run_names_the_key(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    real_agent(workspace)
    async with workspace.open() as runtime:
        assert runtime.holdfast.agents.broken() == []
        with pytest.raises(Invalid, match="MINE_KEY"):
            await runtime.start()


IMPORTED = """
import asyncio, sys
from holdfast.bootstrap.workspace import open_workspace

async def main():
    async with open_workspace(sys.argv[1], database=sys.argv[2]):
        while "pydantic_ai.models.openai" not in sys.modules:
            await asyncio.sleep(0.01)

assert "pydantic_ai" not in sys.modules
asyncio.run(main())
"""


def test_the_library_of_a_provider_that_an_agent_names_is_imported_after_the_start(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE_KEY", "k")
    real_agent(workspace)
    subprocess.run([sys.executable, "-c", IMPORTED, str(workspace.folder), str(workspace.database)], check=True)
