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
    """What calls of one run have asked. Values go over to other runs, but questions do not."""

    run_id: RunId
    calls: dict[ToolCallId, ToolInterrupt] = {}


def pending_input(call: ToolContext) -> ToolInterrupt | None:
    """Return what a call has asked."""
    kept = read_value(call, PENDING_INPUTS_VALUE, default=PendingInputs(run_id=call.run.id))
    return kept.calls.get(call.id) if kept.run_id == call.run.id else None


def result_from_reply(call: ToolContext, reply: ToolReply) -> ToolResult:
    """Return what a tool replied as an outcome: with a question the call waits."""
    if reply.question is None:
        forgotten = (
            {PENDING_INPUTS_VALUE: _update_pending(call, None)}
            if call.values.get(PENDING_INPUTS_VALUE) is not None
            else {}
        )
        return ToolResult(
            content=reply.content,
            failed=reply.failed,
            unknown=reply.unknown,
            untrusted=reply.untrusted,
            revisions=forgotten,
        )
    interrupt = NewInterrupt(
        kind=InterruptKind.INPUT,
        id=InterruptId(derived_id("int", key=call.key)),
        message=reply.question.message,
        tool_call_id=call.id,
        response_schema=reply.question.response_schema,
    )
    return ToolResult(
        wait=InterruptWait(interrupt=interrupt), revisions={PENDING_INPUTS_VALUE: _update_pending(call, reply.question)}
    )


def _update_pending(call: ToolContext, question: ToolInterrupt | None) -> Callable[[Json], Json]:
    """Return what puts a question in the place of the one that a call asked before."""

    def keep(value: Json) -> Json:
        kept = None if value is None else msgspec.convert(value, PendingInputs)
        others = kept.calls if kept is not None and kept.run_id == call.run.id else {}
        calls = {name: asked for name, asked in others.items() if name != call.id}
        if question is not None:
            calls[call.id] = question
        return encode_value(PendingInputs(run_id=call.run.id, calls=calls)) if calls else None

    return keep


OFFLINE_TOOL_TIMEOUT_SECONDS: Final = 4_000.0
"""Seconds after which a call of a tool is given up that was away when it began: its own time is not known here."""


class RemoteTool:
    """`Tool` that the control plane runs."""

    def __init__(self, spec: ToolSpec, remote: RemoteTools) -> None:
        self.spec = spec
        self._remote = remote

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Have it done."""
        reply = await self._remote.call(call.lease, self.spec.name, arguments, key=call.key)
        return result_from_reply(call, reply)

    async def resume(self, call: ToolContext, arguments: dict[str, Json], cause: ResumeCause) -> ToolResult:
        """Have it go on, now that a person answered what it asked, or will not."""
        asked = pending_input(call)
        if asked is None:
            return ToolResult(content="what it asked is not known any more: call it again", failed=True)
        response = cause.response if isinstance(cause, InterruptResolved) and not cause.expired else None
        name, key = self.spec.name, call.key
        reply = await self._remote.resume(call.lease, name, arguments, key=key, interrupt=asked, response=response)
        return result_from_reply(call, reply)


def remote_tools(specs: Iterable[ToolSpec], remote: RemoteTools, *, redaction: Redaction | None = None) -> list[Tool]:
    """Return the tools of these specs, which are run elsewhere."""
    return [with_standard_middleware(RemoteTool(_as_untrusted(spec), remote), redaction=redaction) for spec in specs]


def offline_tool(name: str, remote: RemoteTools, *, redaction: Redaction | None = None) -> Tool:
    """Return a tool that nobody offers now, and that may be back by the time of a call, which is checked there."""
    spec = ToolSpec(name=name, description="", parameters={"type": "object"}, timeout=OFFLINE_TOOL_TIMEOUT_SECONDS)
    return with_standard_middleware(RemoteTool(_as_untrusted(spec), remote), redaction=redaction)


def _as_untrusted(spec: ToolSpec) -> ToolSpec:
    """Return the spec of a tool whose answers are the words of others, unless the platform itself runs it."""
    return spec if spec.name in BUILTIN_NAMES else replace(spec, untrusted=True)
