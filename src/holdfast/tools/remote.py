"""Tools that run elsewhere, as tools like any other."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolSpec
from holdfast.ports.runtime import RemoteTools
from holdfast.tools.built_ins import BUILT_IN
from holdfast.tools.questions import question_of, told
from holdfast.tools.redaction import Redaction
from holdfast.tools.tool import Answered, Arrival, Call, Outcome, Tool
from holdfast.tools.wrapped import wrapped

LONGEST: Final = 4_000.0
"""Seconds after which a call of a tool is given up that was away when it began: its own time is not known here."""


class RemoteTool:
    """`Tool` that the control plane runs."""

    def __init__(self, spec: ToolSpec, remote: RemoteTools) -> None:
        self.spec = spec
        self._remote = remote

    async def run(self, call: Call, arguments: dict[str, Json]) -> Outcome:
        """Have it done."""
        reply = await self._remote.call(call.lease, self.spec.name, arguments, key=call.key)
        return told(call, reply)

    async def resume(self, call: Call, arguments: dict[str, Json], arrival: Arrival) -> Outcome:
        """Have it go on, now that a person answered what it asked, or will not."""
        asked = question_of(call)
        if asked is None:
            return Outcome(content="what it asked is not known any more: call it again", failed=True)
        response = arrival.response if isinstance(arrival, Answered) and not arrival.expired else None
        name, key = self.spec.name, call.key
        reply = await self._remote.answer(call.lease, name, arguments, key=key, question=asked, response=response)
        return told(call, reply)


def remote_tools(specs: Iterable[ToolSpec], remote: RemoteTools, *, redaction: Redaction | None = None) -> list[Tool]:
    """Return the tools of these specs, which are run elsewhere."""
    return [wrapped(RemoteTool(_of_others(spec), remote), redaction=redaction) for spec in specs]


def away_tool(name: str, remote: RemoteTools, *, redaction: Redaction | None = None) -> Tool:
    """Return a tool that nobody offers now, and that may be back by the time of a call, which is checked there."""
    spec = ToolSpec(name=name, description="", parameters={"type": "object"}, timeout=LONGEST)
    return wrapped(RemoteTool(_of_others(spec), remote), redaction=redaction)


def _of_others(spec: ToolSpec) -> ToolSpec:
    """Return the spec of a tool whose answers are the words of others, unless the platform itself runs it."""
    return spec if spec.name in BUILT_IN else replace(spec, untrusted=True)
