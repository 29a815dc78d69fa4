"""A store has exactly its ports, and every adapter has the signatures of its port."""

import inspect
from pathlib import Path
from typing import get_type_hints

import pytest

from holdfast.bootstrap import SystemClock, open_store
from holdfast.bus.local import LocalBus
from holdfast.bus.nats import NatsBus
from holdfast.bus.postgres import PostgresBus
from holdfast.ports.bus import Bus, RunWatcher, Watch
from holdfast.ports.folders import RestorableFolder, RestorableFolders
from holdfast.ports.memory import Embedder, MemoryFiles, Recall
from holdfast.ports.model import KnownModels, Model, Models, TokenCounter
from holdfast.ports.queue import WorkerBeats
from holdfast.ports.requests import RequestPorts
from holdfast.ports.runtime import Clock, Executor, Library, MemoryLibrary, RemoteTools, SubagentRuns
from holdfast.ports.sandbox import Processes, Sandbox
from holdfast.ports.skills import FolderSkills
from holdfast.ports.tools import WebSearch, WorkingFolder, WorkingFolders
from holdfast.ports.workspace import AgentDefinitions, AgentFiles, Agents, RunAgents, SettingsFile
from holdfast.testing.clock import HeldClock
from tests.conformance.ports import Ports, methods_of, ports_of, protocols

NOT_OF_THE_STORE = {
    AgentDefinitions,
    AgentFiles,
    Agents,
    RunAgents,
    Bus,
    Clock,
    Embedder,
    Executor,
    FolderSkills,
    KnownModels,
    Library,
    MemoryFiles,
    MemoryLibrary,
    SubagentRuns,
    Model,
    Models,
    Processes,
    Recall,
    RemoteTools,
    RequestPorts,
    Sandbox,
    SettingsFile,
    TokenCounter,
    Watch,
    RunWatcher,
    WebSearch,
    WorkerBeats,
    WorkingFolder,
    RestorableFolder,
    RestorableFolders,
    WorkingFolders,
}

# The type checker verifies that these implement the ports.
_BUSES: list[Bus] = [LocalBus(), PostgresBus(), NatsBus()]
_CLOCKS: list[Clock] = [SystemClock(), HeldClock()]


def test_every_port_is_a_store_port_or_listed_as_another() -> None:
    assert {*get_type_hints(Ports).values(), *NOT_OF_THE_STORE} == set(protocols())


async def test_a_store_has_exactly_its_ports_with_their_signatures(tmp_path: Path) -> None:
    async with open_store(tmp_path / "holdfast.db", bus=LocalBus()) as store:
        assert {name for name in vars(store) if not name.startswith("_")} == set(Ports._fields)
        for name, protocol in get_type_hints(Ports).items():
            adapter = type(getattr(ports_of(store), name))
            for method, promised in methods_of(protocol).items():
                given = getattr(adapter, method)
                assert inspect.signature(given) == inspect.signature(promised), f"{name}.{method}"
                assert inspect.iscoroutinefunction(given) is inspect.iscoroutinefunction(promised)


@pytest.mark.parametrize("bus", _BUSES)
def test_a_bus_has_the_signatures_of_its_port(bus: Bus) -> None:
    for method, promised in methods_of(Bus).items():
        given = inspect.signature(getattr(type(bus), method))
        assert given.parameters == inspect.signature(promised).parameters


@pytest.mark.parametrize("clock", _CLOCKS)
def test_a_clock_has_the_signature_of_its_port(clock: Clock) -> None:
    assert inspect.signature(type(clock).now) == inspect.signature(Clock.now)
