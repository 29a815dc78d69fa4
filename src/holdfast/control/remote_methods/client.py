"""One client that is connected: what it offers, and the calls that it has not answered."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Final

from holdfast.control.remote_methods.errors import BadAnswer, CallNotOpen, ClientBusy, ClientGone, MethodTimedOut
from holdfast.control.remote_methods.method import Method, spec_of
from holdfast.control.remote_methods.telling import CallCancelled, MethodCalled, Telling
from holdfast.control.task_contract.ids import task_id_of
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid
from holdfast.domain.ids import SpaceId
from holdfast.domain.tool import ToolClass, ToolReply
from holdfast.tools.arguments import check_arguments

MOST_CALLS: Final = 64
"""Calls of one client that may be open at once."""


class _OpenCall:
    """A call that nobody has answered."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.sent = False
        self.answer: asyncio.Future[ToolReply] = asyncio.get_running_loop().create_future()

    def lost(self, error: HoldfastError) -> ToolReply:
        """Return what the model reads in place of an answer; of what was sent nobody knows whether it happened."""
        unknown = self.sent and spec_of(self.method).kind is ToolClass.EFFECTFUL
        so = ": nobody knows whether it took effect, so verify before you call it again" if unknown else ""
        return ToolReply(content=f"{error.code}: {error.message}{so}", failed=True, unknown=unknown)


class Client:
    """A client of a space, while it is connected."""

    def __init__(self, space: SpaceId, *, tell: Callable[[Telling], None]) -> None:
        """Connect a client; `tell` has something sent to it, and does not wait for that."""
        self.space = space
        self.tell = tell
        self.methods: Mapping[str, Method] = {}
        """By the names of the tools that they are."""
        self._open: dict[str, _OpenCall] = {}

    async def call(self, lease: Lease, tool: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Have a method called, and wait for the answer."""
        method = self.methods[tool]
        try:
            check_arguments(spec_of(method), arguments)
        except Invalid as error:
            return _refused(error)
        if len(self._open) >= MOST_CALLS:
            return _refused(ClientBusy(f"the client of `{tool}` has {MOST_CALLS} open calls: call it again later"))
        call_id, call = f"call_{secrets.token_hex(8)}", _OpenCall(method)
        self._open[call_id] = call
        self.tell(_called(call_id, method, lease, arguments, key=key))
        try:
            return await _answer(call)
        finally:
            if self._open.pop(call_id, None) is not None and call.sent:
                self.tell(CallCancelled(call_id=call_id))

    def sending(self, call_id: str) -> bool:
        """Note that a call is about to be sent, and say whether it still should be."""
        call = self._open.get(call_id)
        if call is not None:
            call.sent = True
        return call is not None

    def answer(self, call_id: str, reply: ToolReply) -> None:
        """Take the answer of a call; the first one counts."""
        call = self._open.pop(call_id, None)
        if call is None:
            name = call_id[:64]
            raise CallNotOpen(f"the call `{name}` is not open: nobody waits for this answer", call_id=name)
        call.answer.set_result(reply)

    def spoil(self, call_id: str, why: str) -> None:
        """Take what is no answer for the end of a call, if it is open."""
        call = self._open.pop(call_id, None)
        if call is not None:
            call.answer.set_result(call.lost(BadAnswer(f"the client answered with what is no answer: {why}")))

    def leave(self) -> None:
        """Settle what is open: nobody will answer."""
        left, self._open = self._open, {}
        for call in left.values():
            call.answer.set_result(call.lost(ClientGone(f"the client that offers `{call.method.tool}` went away")))


async def _answer(call: _OpenCall) -> ToolReply:
    seconds = call.method.timeout_seconds
    await asyncio.wait([call.answer], timeout=seconds)
    if call.answer.done():
        return call.answer.result()
    return call.lost(MethodTimedOut(f"`{call.method.tool}` was not answered within {seconds:g} seconds"))


def _refused(error: HoldfastError) -> ToolReply:
    return ToolReply(content=f"{error.code}: {error.message}", failed=True)


def _called(call_id: str, method: Method, lease: Lease, arguments: dict[str, Json], *, key: str) -> MethodCalled:
    return MethodCalled(
        call_id=call_id,
        key=key,
        method=method.name,
        arguments=arguments,
        timeout_seconds=method.timeout_seconds,
        agent=lease.run.agent_type,
        task_id=task_id_of(lease.run_id),
        session_id=lease.thread_id,
    )
