"""The tools of the play. Each reports its calls to the tool server, and passes its kill points."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from holdfast.domain.artifact import ArtifactType, NewArtifact
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ArtifactId
from holdfast.domain.tool import ToolClass
from holdfast.tools.content import artifact_created_event
from holdfast.tools.tool import Tool, ToolContext, ToolResult
from holdfast.tools.typed_tool import ToolArguments, TypedTool, tool_spec
from tests.scenario.crash_play import moment, name_of
from tests.support.counting_server import calling

Reach: TypeAlias = Callable[[str], None]

_About = Annotated[str, Meta(description="What it is about.")]


class Look(ToolArguments, frozen=True, kw_only=True):
    """Look at something, without a change."""

    what: _About


class Charge(ToolArguments, frozen=True, kw_only=True):
    """Pay for something."""

    what: _About


class Sync(ToolArguments, frozen=True, kw_only=True):
    """Bring something up to date."""

    what: _About


class Watch(ToolArguments, frozen=True, kw_only=True):
    """Watch something until it is enough."""

    what: _About


class Note(ToolArguments, frozen=True, kw_only=True):
    """Keep a note."""

    what: _About


_READ_ONLY: Final = tool_spec(Look, name="look", kind=ToolClass.IDEMPOTENT, read_only=True)
_EFFECTFUL: Final = tool_spec(Charge, name="charge", kind=ToolClass.EFFECTFUL)
_IDEMPOTENT: Final = tool_spec(Sync, name="sync", kind=ToolClass.IDEMPOTENT)
_SLOW: Final = tool_spec(Watch, name="watch", kind=ToolClass.IDEMPOTENT)
_TRANSACTIONAL: Final = tool_spec(Note, name="note", kind=ToolClass.TRANSACTIONAL)


def tools(server: str, reach: Reach) -> list[Tool]:
    """Return the tools of a process; `reach` is called at each kill point."""
    counted = partial(_counted_call, server, reach)
    return [
        TypedTool(_READ_ONLY, Look, run=partial(counted, "look")),
        TypedTool(_EFFECTFUL, Charge, run=partial(counted, "charge")),
        TypedTool(_IDEMPOTENT, Sync, run=partial(counted, "sync")),
        TypedTool(_SLOW, Watch, run=partial(counted, "watch")),
        TypedTool(_TRANSACTIONAL, Note, run=partial(_note, reach)),
    ]


async def _counted_call(
    server: str, reach: Reach, tool: str, call: ToolContext, arguments: Look | Charge | Sync | Watch
) -> ToolResult:
    reach(moment("tool", arguments.what, "begun"))
    async with calling(server, tool=tool, key=call.key, name=name_of(call.run.root_run_id, arguments.what)) as finish:
        reach(moment("tool", arguments.what, "inside"))
        await finish()
    reach(moment("tool", arguments.what, "over"))
    return ToolResult(content={"did": tool, "what": arguments.what})


async def _note(reach: Reach, call: ToolContext, arguments: Note) -> ToolResult:
    reach(moment("tool", arguments.what, "begun"))
    artifact = ArtifactId(derived_id("art", key=call.key))
    new = NewArtifact(id=artifact, type=ArtifactType.DOC, title=arguments.what, content="noted")
    reach(moment("tool", arguments.what, "over"))
    event = artifact_created_event(new)
    return ToolResult(content={"artifact_id": artifact}, artifacts=[new], events=[event])
