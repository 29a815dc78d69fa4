"""The tools of the play. Each says to the tool server what it does, and reaches its moments on the way."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from holdfast.domain.artifact import ArtifactType, NewArtifact
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ArtifactId
from holdfast.domain.tool import ToolClass
from holdfast.testing.counting_server import calling
from holdfast.tools.artifacts import made
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome, Tool
from holdfast.tools.typed import TypedTool
from tests.scenario.crash_play import moment, name_of

Reach: TypeAlias = Callable[[str], None]

_About = Annotated[str, Meta(description="What it is about.")]


class Look(Arguments, frozen=True, kw_only=True):
    """Look at something. Nothing changes."""

    what: _About


class Charge(Arguments, frozen=True, kw_only=True):
    """Pay for something."""

    what: _About


class Sync(Arguments, frozen=True, kw_only=True):
    """Bring something up to date."""

    what: _About


class Watch(Arguments, frozen=True, kw_only=True):
    """Watch something until it is enough."""

    what: _About


class Note(Arguments, frozen=True, kw_only=True):
    """Keep a note."""

    what: _About


_READ_ONLY: Final = spec_of(Look, name="look", kind=ToolClass.IDEMPOTENT, read_only=True)
_EFFECTFUL: Final = spec_of(Charge, name="charge", kind=ToolClass.EFFECTFUL)
_IDEMPOTENT: Final = spec_of(Sync, name="sync", kind=ToolClass.IDEMPOTENT)
_SLOW: Final = spec_of(Watch, name="watch", kind=ToolClass.IDEMPOTENT)
_TRANSACTIONAL: Final = spec_of(Note, name="note", kind=ToolClass.TRANSACTIONAL)


def tools(server: str, reach: Reach) -> list[Tool]:
    """Return the tools of a process; `reach` is told each moment."""
    visit = partial(_visit, server, reach)
    return [
        TypedTool(_READ_ONLY, Look, run=partial(visit, "look")),
        TypedTool(_EFFECTFUL, Charge, run=partial(visit, "charge")),
        TypedTool(_IDEMPOTENT, Sync, run=partial(visit, "sync")),
        TypedTool(_SLOW, Watch, run=partial(visit, "watch")),
        TypedTool(_TRANSACTIONAL, Note, run=partial(_note, reach)),
    ]


async def _visit(server: str, reach: Reach, tool: str, call: Call, asked: Look | Charge | Sync | Watch) -> Outcome:
    reach(moment("tool", asked.what, "begun"))
    async with calling(server, tool=tool, key=call.key, name=name_of(call.run.root_run_id, asked.what)) as finish:
        reach(moment("tool", asked.what, "inside"))
        await finish()
    reach(moment("tool", asked.what, "over"))
    return Outcome(content={"did": tool, "what": asked.what})


async def _note(reach: Reach, call: Call, asked: Note) -> Outcome:
    reach(moment("tool", asked.what, "begun"))
    artifact = ArtifactId(derived_id("art", key=call.key))
    new = NewArtifact(id=artifact, type=ArtifactType.DOC, title=asked.what, content="noted")
    reach(moment("tool", asked.what, "over"))
    return Outcome(content={"artifact_id": artifact}, artifacts=[new], events=[made(artifact, new)])
