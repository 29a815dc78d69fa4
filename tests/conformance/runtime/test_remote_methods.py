"""`RemoteTools` of clients: methods that they offer to the runs of their space, called under a lease."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.control.remote_methods import (
    CallCancelledFrame,
    MethodCallFrame,
    MethodClient,
    MethodFrame,
    RemoteMethod,
    RemoteMethods,
)
from holdfast.domain.content import Json
from holdfast.domain.errors import LeaseLost, NotFound
from holdfast.domain.ids import SpaceId
from holdfast.domain.tool import ToolClass, ToolInterrupt, ToolReply, check_tool_spec
from holdfast.store.store import Store
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import running
from tests.conformance.runtime.implementations import Runtime, key_of

ECHO = RemoteMethod(name="echo", description="Say it again.")
READ = RemoteMethod(name="read", description="Read something.", read_only=True)


class Parrot:
    """A client that replies at once with its arguments, unless it is set to be silent."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.told: list[MethodFrame] = []
        self.quiet = quiet
        self.client: MethodClient | None = None
        self.called = asyncio.Event()

    def hear(self, telling: MethodFrame) -> None:
        """Receive a message."""
        self.told.append(telling)
        if not isinstance(telling, MethodCallFrame):
            return
        assert self.client is not None
        assert self.client.mark_sent(telling.call_id)
        self.called.set()
        if not self.quiet:
            self.client.resolve(telling.call_id, ToolReply(content=telling.arguments))

    @property
    def calls(self) -> list[MethodCallFrame]:
        """The calls it received."""
        return [each for each in self.told if isinstance(each, MethodCallFrame)]


@asynccontextmanager
async def offering(
    methods: RemoteMethods, *offered: RemoteMethod, space: SpaceId = SPACE, quiet: bool = False
) -> AsyncIterator[Parrot]:
    """Connect a client while the context is open."""
    parrot = Parrot(quiet=quiet)
    with methods.connected(space, send=parrot.hear) as parrot.client:
        await methods.offer(parrot.client, offered)
        yield parrot


async def test_methods_are_listed_as_tools_while_their_client_is_connected(
    store: Store, runtime: Runtime, methods: RemoteMethods
) -> None:
    lease = await running(store, "go")
    before = await runtime.remote.list(lease)
    async with offering(methods, READ, ECHO):
        found = [check_tool_spec(spec) for spec in (await runtime.remote.list(lease)).tools]
        assert [spec.name for spec in found] == sorted(spec.name for spec in found)
        kinds = {spec.name: (spec.kind, spec.read_only) for spec in found if spec.name.startswith("remote__")}
        assert kinds == {
            "remote__echo": (ToolClass.EFFECTFUL, False),
            "remote__read": (ToolClass.IDEMPOTENT, True),
        }
    assert await runtime.remote.list(lease) == before


async def test_a_method_is_called_with_the_key_of_the_call(
    store: Store, runtime: Runtime, methods: RemoteMethods
) -> None:
    lease = await running(store, "go")
    async with offering(methods, ECHO) as parrot:
        replies = [await runtime.remote.call(lease, "remote__echo", {"n": n}, key=key_of(lease)) for n in (1, 2)]
    assert [reply.content for reply in replies] == [{"n": 1}, {"n": 2}]
    assert {each.key for each in parrot.calls} == {key_of(lease)} and len({each.call_id for each in parrot.calls}) == 2


async def test_a_method_that_nobody_offers_is_not_found(store: Store, runtime: Runtime, methods: RemoteMethods) -> None:
    lease = await running(store, "go")
    with pytest.raises(NotFound, match="remote__echo"):
        await runtime.remote.call(lease, "remote__echo", {}, key=key_of(lease))
    async with offering(methods, READ):
        with pytest.raises(NotFound):
            await runtime.remote.call(lease, "remote__echo", {}, key=key_of(lease))


async def test_a_client_of_another_space_offers_nothing(store: Store, runtime: Runtime, methods: RemoteMethods) -> None:
    lease = await running(store, "go")
    async with offering(methods, ECHO, space=OTHER) as parrot:
        assert "remote__echo" not in [spec.name for spec in (await runtime.remote.list(lease)).tools]
        with pytest.raises(NotFound):
            await runtime.remote.call(lease, "remote__echo", {}, key=key_of(lease))
        assert parrot.calls == []


async def test_no_client_is_called_with_a_lost_lease(store: Store, runtime: Runtime, methods: RemoteMethods) -> None:
    lease = await running(store, "go")
    await store.runs.end(SPACE, lease.run_id)
    async with offering(methods, ECHO) as parrot:
        with pytest.raises(LeaseLost):
            await runtime.remote.call(lease, "remote__echo", {}, key=key_of(lease))
    assert parrot.calls == []


@pytest.mark.parametrize(("method", "unknown"), [(ECHO, True), (READ, False)])
async def test_a_call_whose_client_disconnects_settles_by_its_tool_class(
    store: Store, runtime: Runtime, methods: RemoteMethods, method: RemoteMethod, unknown: bool
) -> None:
    lease = await running(store, "go")
    async with asyncio.TaskGroup() as tasks, offering(methods, method, quiet=True) as parrot:
        calling = tasks.create_task(runtime.remote.call(lease, method.tool, {}, key=key_of(lease)))
        await parrot.called.wait()
    reply = calling.result()
    assert (reply.failed, reply.unknown) == (True, unknown)
    assert str(reply.content).startswith("CLIENT_GONE: ")


async def test_a_cancelled_call_is_cancelled_at_its_client(
    store: Store, runtime: Runtime, methods: RemoteMethods
) -> None:
    lease = await running(store, "go")
    async with offering(methods, ECHO, quiet=True) as parrot:
        async with asyncio.TaskGroup() as tasks:
            calling = tasks.create_task(runtime.remote.call(lease, "remote__echo", {}, key=key_of(lease)))
            await parrot.called.wait()
            calling.cancel()
        cancelled = CallCancelledFrame(call_id=parrot.calls[0].call_id)
        while parrot.told[-1] != cancelled:  # noqa: ASYNC110 - over a connection it takes a moment
            await asyncio.sleep(0.01)


async def test_a_method_raises_no_interrupt_and_needs_no_trust(
    store: Store, runtime: Runtime, methods: RemoteMethods
) -> None:
    lease = await running(store, "go")
    asked: dict[str, Json] = {}
    async with offering(methods, ECHO):
        with pytest.raises(NotFound):
            question = ToolInterrupt(message="?")
            await runtime.remote.resume(
                lease, "remote__echo", asked, key=key_of(lease), interrupt=question, response=None
            )
        with pytest.raises(NotFound):
            await runtime.remote.trust(lease, "remote__echo", "digest")
