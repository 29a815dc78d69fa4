"""Arguments are checked before a tool sees them; what is wrong with them is told to the model."""

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.tool import ToolSpec
from holdfast.tools.arguments import check_arguments
from holdfast.tools.explained import explanation
from holdfast.tools.tool import Call, Outcome, Tool
from holdfast.tools.wrapping import Go, wrap


def checked(tool: Tool) -> Tool:
    """Return `tool`, which runs only with arguments that fit its schema."""
    return wrap(tool, _check)


async def _check(spec: ToolSpec, call: Call, arguments: dict[str, Json], go: Go) -> Outcome:
    try:
        check_arguments(spec, arguments)
    except Invalid as error:
        return explanation(error)
    return await go()
