"""The versions of the agents of a workspace: what this process publishes, and what it reads of other processes."""

from pathlib import Path
from typing import Final

import pytest

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.agent_version import AgentHead
from holdfast.domain.ids import SpaceId
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.folder import Workspace
from holdfast.workspace.skills import WorkspaceSkills
from holdfast.workspace.versions import VersionedAgents

EDITED: Final = "Edited."


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
