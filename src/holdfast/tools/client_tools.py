"""Client tools: the run waits while the client runs the tool, and the response is the result of the call.

They are stored in the run value `client_tools` together with the run id, because runs that continue this one inherit
its values and may belong to another client.
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
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import InterruptResolved, InterruptWait, Preempted, ResumeCause, Tool, ToolContext, ToolResult
from holdfast.tools.typed_tool import unexpected_resume

CLIENT_TOOLS_VALUE: Final = "client_tools"
MAX_CLIENT_TOOLS: Final = 128
CLIENT_RESULT_SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "required": ["content"],
    "properties": {"content": {"description": "what the tool returned"}, "error": {"type": "string"}},
    "additionalProperties": False,
}


class ClientToolOffer(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that a client offers to one run."""

    run_id: RunId
    tools: Sequence[ToolSpec]


class ClientToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The response of a client."""

    content: Json
    error: str | None = None


class ClientTool:
    """`Tool` and `ResumableTool` that a client runs."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Ask the client to run it."""
        return ToolResult(
            wait=InterruptWait(
                interrupt=NewInterrupt(
                    kind=InterruptKind.CLIENT_TOOL,
                    id=InterruptId(derived_id("int", key=call.key)),
                    tool_call_id=call.id,
                    arguments=arguments,
                    response_schema=CLIENT_RESULT_SCHEMA,
                    metadata={"tool": self.spec.name},
                )
            )
        )

    async def resume(self, call: ToolContext, arguments: dict[str, Json], cause: ResumeCause) -> ToolResult:
        """Return the response of the client."""
        match cause:
            case InterruptResolved(expired=True):
                return ToolResult(content="not answered: the client did not run it in time", failed=True)
            case InterruptResolved(response=response):
                result = msgspec.convert(response, ClientToolResult)
                failed = result.error is not None
                return ToolResult(content=result.error if failed else result.content, failed=failed)
            case Preempted():
                return ToolResult(content="not answered: the person said something else instead", failed=True)
            case _:
                raise unexpected_resume(self.spec, cause)


def client_tools_value(run_id: RunId, specs: Sequence[ToolSpec]) -> Json:
    """Return the run value with the tools of a client; raise `Invalid` if one of them is not usable."""
    if len(specs) > MAX_CLIENT_TOOLS:
        raise Invalid(f"a client may offer at most {MAX_CLIENT_TOOLS} tools", field="tools")
    for spec in specs:
        check_tool_spec(spec)
    if len({spec.name for spec in specs}) != len(specs):
        raise Invalid("two tools have the same name: rename one", field="tools")
    return msgspec.to_builtins(ClientToolOffer(run_id=run_id, tools=specs))


def client_tool_spec(name: str, description: str, parameters: Json) -> ToolSpec:
    """Return the spec of a client tool; without `parameters` it takes any arguments."""
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
    value = values.get(CLIENT_TOOLS_VALUE)
    if value is None:
        return []
    offer = msgspec.convert(value, ClientToolOffer)
    return [with_standard_middleware(ClientTool(spec)) for spec in offer.tools] if offer.run_id == run_id else []
