"""What a tool of others answers is theirs, also that it failed: whoever reads it is tainted by it."""

from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolSpec
from holdfast.domain.untrusted import taint_source_name
from holdfast.tools.tool import Call, Outcome, Tool
from holdfast.tools.wrapping import Go, wrap


def attributed(tool: Tool) -> Tool:
    """Return `tool`, whose answers say whose words they are, if its spec says that they are not ours."""
    return wrap(tool, _attribute) if tool.spec.untrusted else tool


async def _attribute(spec: ToolSpec, call: Call, arguments: dict[str, Json], go: Go) -> Outcome:
    outcome = await go()
    return (
        outcome if outcome.untrusted is not None else replace(outcome, untrusted=taint_source_name("tool", spec.name))
    )
