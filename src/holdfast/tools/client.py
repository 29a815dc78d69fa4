"""Tools of a client: the run waits while the client runs them, and what it sends back is the result of the call.

They are kept in the value `client_tools` of the run, together with the id of the run, because values go over to the
runs that continue it, and those may be another client's.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, RunId
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.tool import ToolClass, ToolReach, ToolSpec, check_tool_spec
from holdfast.tools.tool import Answered, Arrival, Asked, Call, Disturbed, Outcome, Tool
from holdfast.tools.typed import unexpected
from holdfast.tools.wrapped import wrapped

VALUE: Final = "client_tools"
MOST: Final = 128
RESULT_SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "required": ["content"],
    "properties": {"content": {"description": "what the tool returned"}, "error": {"type": "string"}},
    "additionalProperties": False,
}


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that a client offers to one run."""

    run_id: RunId
    tools: Sequence[ToolSpec]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a client sends back."""

    content: Json
    error: str | None = None


class ClientTool:
    """`Tool` and `Resumable`: a client runs it."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def run(self, call: Call, arguments: dict[str, Json]) -> Outcome:
        """Ask the client to run it."""
        return Outcome(
            wait=Asked(
                interrupt=NewInterrupt(
                    kind=InterruptKind.CLIENT_TOOL,
                    id=InterruptId(derived_id("int", key=call.key)),
                    tool_call_id=call.id,
                    arguments=arguments,
                    response_schema=RESULT_SCHEMA,
                    metadata={"tool": self.spec.name},
                )
            )
        )

    async def resume(self, call: Call, arguments: dict[str, Json], arrival: Arrival) -> Outcome:
        """Return what the client sent back."""
        match arrival:
            case Answered(expired=True):
                return Outcome(content="not answered: the client did not run it in time", failed=True)
            case Answered(response=response):
                result = msgspec.convert(response, Result)
                failed = result.error is not None
                return Outcome(content=result.error if failed else result.content, failed=failed)
            case Disturbed():
                return Outcome(content="not answered: the person said something else instead", failed=True)
            case _:
                raise unexpected(self.spec, arrival)


def offer(run_id: RunId, specs: Sequence[ToolSpec]) -> Json:
    """Return the value of a run that a client offers tools to; raise if one of them can be none."""
    if len(specs) > MOST:
        raise Invalid(f"a client may offer at most {MOST} tools", field="tools")
    for spec in specs:
        check_tool_spec(spec)
    if len({spec.name for spec in specs}) != len(specs):
        raise Invalid("two tools have the same name", field="tools")
    return msgspec.to_builtins(Offer(run_id=run_id, tools=specs))


def spec_of_client(name: str, description: str, parameters: Json) -> ToolSpec:
    """Return the spec of a tool that a client describes; without parameters it takes anything."""
    schema = {"type": "object", **parameters} if isinstance(parameters, dict) else parameters
    if not isinstance(schema, dict | None):
        raise Invalid(f"the parameters of `{name}` must be a JSON Schema of an object", field="tools")
    return ToolSpec(
        name=name,
        description=description,
        parameters=schema or {"type": "object"},
        kind=ToolClass.TRANSACTIONAL,
        reach=ToolReach.OUTSIDE,
    )


def client_tools(values: Mapping[str, Json], run_id: RunId) -> list[Tool]:
    """Return the tools that a client offers to this run."""
    written = values.get(VALUE)
    if written is None:
        return []
    offered = msgspec.convert(written, Offer)
    return [wrapped(ClientTool(spec)) for spec in offered.tools] if offered.run_id == run_id else []
