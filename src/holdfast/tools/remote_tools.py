"""Remote tools: tools that the control plane runs (MCP servers, remote methods, the platform itself).

A remote tool may ask for input: the call waits on an interrupt and continues there with the response. The input
request is kept in the run value `questions` until the call settles, because the tool needs it back.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, RunId, ToolCallId
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.tool import ToolInterrupt, ToolReply, ToolSpec
from holdfast.ports.runtime import RemoteTools
from holdfast.tools.builtin.catalog import BUILTIN_NAMES
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.redaction import Redaction
from holdfast.tools.tool import (
    InterruptResolved,
    InterruptWait,
    ResumeCause,
    Tool,
    ToolContext,
    ToolResult,
    encode_value,
    read_value,
)

PENDING_INPUTS_VALUE: Final = "questions"


class PendingInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The input requests of the calls of one run; a run that inherits the value ignores them."""

    run_id: RunId
    calls: dict[ToolCallId, ToolInterrupt] = {}


def _result_from_reply(call: ToolContext, reply: ToolReply) -> ToolResult:
    """Return the result of a reply; with an input request, the call waits."""
    if reply.interrupt is None:
        has_pending = call.values.get(PENDING_INPUTS_VALUE) is not None
        return ToolResult(
            content=reply.content,
            failed=reply.failed,
            unknown=reply.unknown,
            untrusted=reply.untrusted,
            revisions={PENDING_INPUTS_VALUE: _update_pending(call, None)} if has_pending else {},
        )
    interrupt = NewInterrupt(
        kind=InterruptKind.INPUT,
        id=InterruptId(derived_id("int", key=call.key)),
        message=reply.interrupt.message,
        tool_call_id=call.id,
        response_schema=reply.interrupt.response_schema,
    )
    return ToolResult(
        wait=InterruptWait(interrupt=interrupt),
        revisions={PENDING_INPUTS_VALUE: _update_pending(call, reply.interrupt)},
    )


def _update_pending(call: ToolContext, request: ToolInterrupt | None) -> Callable[[Json], Json]:
    """Return the revision that replaces the input request of a call, or removes it."""

    def revise(value: Json) -> Json:
        pending = None if value is None else msgspec.convert(value, PendingInputs)
        own = pending.calls if pending is not None and pending.run_id == call.run.id else {}
        calls = {call_id: other for call_id, other in own.items() if call_id != call.id}
        if request is not None:
            calls[call.id] = request
        return encode_value(PendingInputs(run_id=call.run.id, calls=calls)) if calls else None

    return revise


OFFLINE_TOOL_TIMEOUT_SECONDS: Final = 4_000.0
"""Timeout of a tool that is offline when the run starts, because its own timeout is not known then."""


class RemoteTool:
    """`Tool` and `ResumableTool` that the control plane runs."""

    def __init__(self, spec: ToolSpec, remote: RemoteTools) -> None:
        self.spec = spec
        self._remote = remote

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Call the tool on the control plane."""
        reply = await self._remote.call(call.lease, self.spec.name, arguments, key=call.key)
        return _result_from_reply(call, reply)

    async def resume(self, call: ToolContext, arguments: dict[str, Json], cause: ResumeCause) -> ToolResult:
        """Continue the call with the response of a person, or without one."""
        pending = read_value(call, PENDING_INPUTS_VALUE, default=PendingInputs(run_id=call.run.id))
        request = pending.calls.get(call.id) if pending.run_id == call.run.id else None
        if request is None:
            return ToolResult(content="the input request of this call is lost: call it again", failed=True)
        response = cause.response if isinstance(cause, InterruptResolved) and not cause.expired else None
        name, key = self.spec.name, call.key
        reply = await self._remote.resume(call.lease, name, arguments, key=key, interrupt=request, response=response)
        return _result_from_reply(call, reply)


def remote_tools(specs: Iterable[ToolSpec], remote: RemoteTools, *, redaction: Redaction | None = None) -> list[Tool]:
    """Return the remote tools of these specs; the output of a tool that is not a built-in is untrusted."""
    return [
        with_standard_middleware(
            RemoteTool(spec if spec.name in BUILTIN_NAMES else replace(spec, untrusted=True), remote),
            redaction=redaction,
        )
        for spec in specs
    ]


def offline_tool(name: str, remote: RemoteTools, *, redaction: Redaction | None = None) -> Tool:
    """Return a remote tool that is offline now; the control plane checks a call if it is back by then."""
    spec = ToolSpec(name=name, description="", parameters={"type": "object"}, timeout=OFFLINE_TOOL_TIMEOUT_SECONDS)
    (tool,) = remote_tools([spec], remote, redaction=redaction)
    return tool
