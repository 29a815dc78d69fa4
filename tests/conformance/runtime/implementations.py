"""The implementations of a worker's ports to the control plane.

A new implementation adds a line to `IMPLEMENTATIONS`. It receives the control plane's own ports, and yields the ports
of the worker.
"""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast, get_type_hints

import msgspec

from holdfast.api.asgi import AsgiApp
from holdfast.api.middleware import HostOriginMiddleware
from holdfast.bootstrap.api_app import NoKeys
from holdfast.bootstrap.store import SystemClock
from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Lease
from holdfast.domain.idempotency import step_key
from holdfast.engine.watcher import Watcher
from holdfast.ports.folders import FolderSnapshots
from holdfast.ports.log import EventLog, Journal
from holdfast.ports.queue import Leases, WorkerBeats, WorkerLeases
from holdfast.ports.runtime import Library, MemoryLibrary, RemoteTools, RuntimePorts, SubagentRuns
from holdfast.rpc.client import open_ports
from holdfast.rpc.server import ControlRpc
from tests.api.site import serve_app
from tests.conformance.ports import methods_of

Port = TypeVar("Port")


class Runtime(NamedTuple):
    """The ports of a worker."""

    leases: Leases
    journal: Journal
    remote: RemoteTools
    library: Library
    subagents: SubagentRuns
    folders: FolderSnapshots


def key_of(lease: Lease) -> str:
    """Return the key of the first step of a run."""
    return step_key(lease.run_id, 1)


Implementation: TypeAlias = Callable[[Runtime, WorkerLeases], AbstractAsyncContextManager[Runtime]]


@asynccontextmanager
async def in_process(control: Runtime, worker_leases: WorkerLeases) -> AsyncIterator[Runtime]:
    """Call the control plane directly."""
    yield control


@asynccontextmanager
async def over_http(control: Runtime, worker_leases: WorkerLeases) -> AsyncIterator[Runtime]:
    """Call it over the control RPC."""
    runtime = RuntimePorts(
        journal=control.journal,
        library=control.library,
        memory=cast(MemoryLibrary, None),
        subagents=control.subagents,
        remote=control.remote,
        folders=control.folders,
    )
    bus = LocalBus()
    watcher = Watcher(bus=bus, events=cast(EventLog, None), leases=control.leases, clock=SystemClock())
    rpc = ControlRpc(
        cast(AsgiApp, None),
        leases=control.leases,
        worker_leases=worker_leases,
        workers=cast(WorkerBeats, None),
        ports=runtime,
        keys=NoKeys(),
        watcher=watcher,
    )
    async with serve_app(HostOriginMiddleware(rpc)) as url, open_ports(url, None) as ports:
        leases = ports.leases
        leases.expire = control.leases.expire  # type: ignore[method-assign]  # the control plane does it
        there = ports.runtime
        yield Runtime(leases, there.journal, there.remote, there.library, there.subagents, there.folders)


@asynccontextmanager
async def as_json(control: Runtime, worker_leases: WorkerLeases) -> AsyncIterator[Runtime]:
    """Call it as over a connection: arguments and results are encoded as JSON and decoded by their types."""
    yield Runtime(*(_as_json(hint, port) for hint, port in zip(get_type_hints(Runtime).values(), control, strict=True)))


IMPLEMENTATIONS: Final[dict[str, Implementation]] = {
    "in_process": in_process,
    "as_json": as_json,
    "over_http": over_http,
}


def _as_json(protocol: type[Port], port: Port) -> Port:
    relays = {name: _relay(method, getattr(port, name)) for name, method in methods_of(protocol).items()}
    return cast(Port, type(f"{protocol.__name__}AsJson", (), {k: staticmethod(v) for k, v in relays.items()})())


def _relay(method: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    hints, signature = get_type_hints(method), inspect.signature(call)

    async def relay(*positional: Any, **named: Any) -> Any:
        given = signature.bind(*positional, **named)
        for name, value in given.arguments.items():
            given.arguments[name] = _across(value, hints[name])
        return _across(await call(*given.args, **given.kwargs), hints["return"])

    return relay


def _across(value: Any, hint: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value), type=hint)
