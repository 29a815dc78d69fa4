"""Fixtures: a control plane, and a worker's ports over every implementation."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import cast

import pytest

from holdfast.control.local_runtime import LocalFolderSnapshots, LocalLibrary, LocalSubagentRuns
from holdfast.control.platform_tools import CombinedTools, PlatformTools
from holdfast.control.remote_methods import RemoteMethods
from holdfast.control.skills import SkillShelf
from holdfast.domain.tool import REMOTE_METHOD_PREFIX
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.folder import Workspace
from holdfast.workspace.skills import WorkspaceSkills
from holdfast.workspace.versions import VersionedAgents
from tests.conformance.conftest import OTHER, SPACE, opened
from tests.conformance.ports import ports_of
from tests.conformance.runtime.implementations import IMPLEMENTATIONS, Runtime
from tests.scenario.agents.agent_workspace import AgentWorkspace, say
from tests.support.empty_database import create_database


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def where(shared_memory: Path) -> Path:
    return create_database(shared_memory / "holdfast.db")


@pytest.fixture
async def control(where: Path, clock: HeldClock) -> AsyncIterator[Store]:
    """Yield the store of the control plane, with two spaces."""
    async with opened(where, clock) as store:
        await store.spaces.create(SPACE, name="Acme")
        await store.spaces.create(OTHER, name="Other")
        yield store


@pytest.fixture
def workshop(tmp_path: Path, where: Path) -> AgentWorkspace:
    """Return a workspace with the agents `bot` and `adder`."""
    workshop = AgentWorkspace(tmp_path / "workspace", where)
    workshop.agent(say("done"), tools=["task_status"])
    workshop.agent(say("done"), name="adder", description="adds")
    return workshop


@pytest.fixture
def agents(workshop: AgentWorkspace, control: Store) -> VersionedAgents:
    """Return its agents, which see an edit at once."""
    seconds, folder = count(), Workspace(workshop.folder)
    folder.prepare()

    def monotonic() -> float:
        return float(next(seconds))

    files = FolderAgents(folder, monotonic=monotonic)
    skills = WorkspaceSkills(folder, monotonic=monotonic)
    return VersionedAgents(folder, files, control.agent_versions, skills=skills, monotonic=monotonic)


@pytest.fixture
def skills(control: Store, workshop: AgentWorkspace) -> SkillShelf:
    """Return the skills of the workspace, which are read again at every request."""
    seconds = count()
    folders = WorkspaceSkills(Workspace(workshop.folder), monotonic=lambda: float(next(seconds)))
    return SkillShelf(folders, control.skills)


@pytest.fixture
def methods(control: Store) -> RemoteMethods:
    """Return the remote methods of clients, without a grace period for reconnects."""
    return RemoteMethods(control.journal, reconnect_wait=0)


@pytest.fixture
async def runtime(
    control: Store, agents: VersionedAgents, skills: SkillShelf, methods: RemoteMethods, implementation: str
) -> AsyncIterator[Runtime]:
    """Yield the ports of a worker. The agents are published, as by an earlier run: no call writes them any more."""
    for agent in agents.all():
        await agents.active(agent.name)
    served = Runtime(
        leases=control.leases,
        journal=control.journal,
        remote=CombinedTools(
            PlatformTools(control.runs, control.journal, control.values), prefixed={REMOTE_METHOD_PREFIX: methods}
        ),
        library=LocalLibrary(
            agents, agents, control.files, control.artifacts, control.grants, control.reminders, skills
        ),
        subagents=LocalSubagentRuns(control.runs, control.subscriptions, control.journal, control.values),
        folders=LocalFolderSnapshots(control.folders, agents, control.journal),
    )
    async with IMPLEMENTATIONS[implementation](served, control.worker_leases) as ports:
        yield ports


@pytest.fixture
def store(control: Store, runtime: Runtime) -> Store:
    """Return the store with the leases and journal of the worker."""
    return cast(
        Store, ports_of(control)._replace(leases=runtime.leases, journal=runtime.journal, folders=runtime.folders)
    )


@pytest.fixture
def stores(store: Store) -> list[Store]:
    return [store]
