"""How a worker may reach the control plane: through its four ports, however they are implemented.

Another implementation joins with a line in `IMPLEMENTATIONS`. It is given the control plane's own ports, to serve them
from, and yields those that a worker has.
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
    """Call it as any connection would: whatever is given and returned is written as JSON and read again by its type."""
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
