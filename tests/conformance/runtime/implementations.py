"""The implementations of a worker's four ports to the control plane.

A new implementation adds a line to `IMPLEMENTATIONS`. It receives the control plane's own ports, and yields the ports
of the worker.
"""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast, get_type_hints

import msgspec

from holdfast.ports.log import Journal
from holdfast.ports.queue import Leases
from holdfast.ports.runtime import Library, RemoteTools
from tests.conformance.ports import methods_of

Port = TypeVar("Port")


class Runtime(NamedTuple):
    """The ports of a worker."""

    leases: Leases
    journal: Journal
    remote: RemoteTools
    library: Library


Implementation: TypeAlias = Callable[[Runtime], AbstractAsyncContextManager[Runtime]]


@asynccontextmanager
async def in_process(control: Runtime) -> AsyncIterator[Runtime]:
    """Call the control plane directly."""
    yield control


@asynccontextmanager
async def as_json(control: Runtime) -> AsyncIterator[Runtime]:
    """Call it as over a connection: arguments and results are encoded as JSON and decoded by their types."""
    yield Runtime(*(_as_json(hint, port) for hint, port in zip(get_type_hints(Runtime).values(), control, strict=True)))


IMPLEMENTATIONS: Final[dict[str, Implementation]] = {
    "in_process": in_process,
    "as_json": as_json,
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
