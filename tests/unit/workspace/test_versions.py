"""The versions of the agents of a workspace: what this process publishes, and what it reads of other processes."""

from collections import Counter
from pathlib import Path
from typing import Any, Final, cast

import pytest

import holdfast.workspace.versions
from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.agent_version import AgentHead, NewAgentVersion, make_bundle
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import SpaceId
from holdfast.ports.workspace import AgentVersions
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.folder import Workspace
from holdfast.workspace.skills import WorkspaceSkills
from holdfast.workspace.versions import VersionedAgents

EDITED: Final = "Edited."
SPACE: Final = SpaceId("acme")


class CountedReads:
    """`AgentVersions` that counts the calls of each method."""

    def __init__(self, versions: AgentVersions) -> None:
        self._versions = versions
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._versions, name)


def of_space(text: str) -> NewAgentVersion:
    files = {"agents/clerk/agent.json": b'{"model": "openai:gpt-5"}', "agents/clerk/AGENT.md": text.encode()}
    return make_bundle("clerk", files, folder="agents/clerk")


async def test_an_edit_that_is_published_while_the_heads_are_read_stays_active(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Workspace.create(tmp_path / "workspace")
    folder.prepare()
    async with open_store(tmp_path / "store.db", bus=LocalBus()) as store:
        versions = store.agent_versions
        agents = VersionedAgents(folder, FolderAgents(folder), versions, skills=WorkspaceSkills(folder))
        await agents.active("hello")
        read_heads = versions.heads

        async def edited_meanwhile(space: SpaceId | None) -> list[AgentHead]:
            heads = await read_heads(space)
            (folder.agents / "hello" / "AGENT.md").write_text(EDITED)
            agents.refresh()
            await agents.active("hello")
            return heads

        monkeypatch.setattr(versions, "heads", edited_meanwhile)
        await agents.sync()
        assert agents.get("hello").instructions == EDITED


async def test_an_agent_of_a_space_costs_one_read_by_key_and_one_of_the_workspace_none(tmp_path: Path) -> None:
    folder = Workspace.create(tmp_path / "workspace")
    folder.prepare()
    async with open_store(tmp_path / "store.db", bus=LocalBus()) as store:
        await store.spaces.create(SPACE, name="Acme")
        for number in range(20):
            texts = {f"agents/other{number}/{name}": b"{}" for name in ("agent.json", "AGENT.md")}
            await store.agent_versions.create(SPACE, make_bundle(f"other{number}", texts, folder=""))
        head = await store.agent_versions.create(SPACE, of_space("File."))
        counted = CountedReads(store.agent_versions)
        agents = VersionedAgents(
            folder, FolderAgents(folder), cast(AgentVersions, counted), skills=WorkspaceSkills(folder)
        )
        await agents.active("hello", space=SPACE)
        await agents.active("clerk", space=SPACE)
        counted.calls.clear()
        for _ in range(3):
            await agents.active("hello", space=SPACE)
        assert counted.calls == {}
        for _ in range(3):
            assert (await agents.active("clerk", space=SPACE)).version == head.active
        assert counted.calls == {"head": 3}


async def test_every_process_sees_a_changed_agent_of_a_space_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holdfast.workspace.versions, "MAX_OPENED_OF_SPACES", 1)
    async with open_store(tmp_path / "store.db", bus=LocalBus()) as store:
        await store.spaces.create(SPACE, name="Acme")
        processes = []
        for name in ("one", "two"):
            folder = Workspace.create(tmp_path / name)
            folder.prepare()
            files = FolderAgents(folder)
            processes.append(VersionedAgents(folder, files, store.agent_versions, skills=WorkspaceSkills(folder)))
        first = await store.agent_versions.create(SPACE, of_space("One."))
        for change, expected in (
            (None, "One."),
            (store.agent_versions.replace(SPACE, of_space("Two.")), "Two."),
            (store.agent_versions.activate(SPACE, "clerk", first.active), "One."),
        ):
            if change is not None:
                await change
            assert [(await each.active("clerk", space=SPACE)).instructions for each in processes] == [expected] * 2
        await store.agent_versions.delete(SPACE, "clerk")
        for process in processes:
            with pytest.raises(NotFound):
                await process.active("clerk", space=SPACE)
