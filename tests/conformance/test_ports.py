"""A store is its ports, no less and no more, and an adapter has the signature of its port to the letter."""

import inspect
from pathlib import Path
from typing import get_type_hints

import pytest

from holdfast.bootstrap import SystemClock, open_store
from holdfast.bus.local import LocalBus
from holdfast.bus.postgres import PostgresBus
from holdfast.ports.agents import Agents
from holdfast.ports.bus import Bus
from holdfast.ports.clock import Clock
from holdfast.ports.executor import Executor
from holdfast.ports.known_models import KnownModels
from holdfast.ports.library import Library
from holdfast.ports.model import Model, Models
from holdfast.ports.peers import Peers
from holdfast.ports.processes import Processes
from holdfast.ports.remote_tools import RemoteTools
from holdfast.ports.sandbox import Sandbox
from holdfast.ports.settings import SettingsFile
from holdfast.ports.tokens import Tokens
from holdfast.ports.watching import Watch, Watching
from holdfast.ports.web_search import WebSearch
from holdfast.ports.working_folder import WorkingFolder, WorkingFolders
from holdfast.testing.clock import HeldClock
from tests.conformance.ports import Ports, methods_of, ports_of, protocols

NOT_OF_THE_STORE = {
    Agents,
    Bus,
    Clock,
    Executor,
    KnownModels,
    Library,
    Peers,
    Model,
    Models,
    Processes,
    RemoteTools,
    Sandbox,
    SettingsFile,
    Tokens,
    Watch,
    Watching,
    WebSearch,
    WorkingFolder,
    WorkingFolders,
}

# A type checker sees that these fit.
_BUSES: list[Bus] = [LocalBus(), PostgresBus()]
_CLOCKS: list[Clock] = [SystemClock(), HeldClock()]


def test_every_port_is_one_of_the_store_or_known_not_to_be() -> None:
    assert {*get_type_hints(Ports).values(), *NOT_OF_THE_STORE} == set(protocols())


async def test_a_store_has_its_ports_and_nothing_else(tmp_path: Path) -> None:
    async with open_store(tmp_path / "holdfast.db", bus=LocalBus()) as store:
        assert {name for name in vars(store) if not name.startswith("_")} == set(Ports._fields)
        for name, protocol in get_type_hints(Ports).items():
            adapter = type(getattr(ports_of(store), name))
            for method, promised in methods_of(protocol).items():
                given = getattr(adapter, method)
                assert inspect.signature(given) == inspect.signature(promised), f"{name}.{method}"
                assert inspect.iscoroutinefunction(given) is inspect.iscoroutinefunction(promised)


@pytest.mark.parametrize("bus", _BUSES)
def test_a_bus_is_called_as_its_port_says(bus: Bus) -> None:
    for method, promised in methods_of(Bus).items():
        given = inspect.signature(getattr(type(bus), method))
        assert given.parameters == inspect.signature(promised).parameters


@pytest.mark.parametrize("clock", _CLOCKS)
def test_a_clock_is_called_as_its_port_says(clock: Clock) -> None:
    assert inspect.signature(type(clock).now) == inspect.signature(Clock.now)
