"""An error that a tool raises on purpose is a result for the model, unless it is about the run itself."""

from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, LeaseLost, OutcomeUnknown, Unavailable
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.tools.tool import Call, Outcome, Tool
from holdfast.tools.wrapping import Go, wrap


def explained(tool: Tool) -> Tool:
    """Return `tool`, whose errors on purpose are failed outcomes that say why."""
    return wrap(tool, _explain)


def explanation(error: HoldfastError) -> Outcome:
    """Return the outcome that tells a model of `error`."""
    return Outcome(content=f"{error.code}: {error.message}", failed=True)


async def _explain(spec: ToolSpec, call: Call, arguments: dict[str, Json], go: Go) -> Outcome:
    try:
        return await go()
    except LeaseLost:
        raise  # the run is somebody else's now: there is no model to tell
    except Unavailable as error:
        if spec.kind is ToolClass.TRANSACTIONAL:
            raise  # our own store is away: no model can help, and the call can be made again
        lost = isinstance(error, OutcomeUnknown) and spec.kind is ToolClass.EFFECTFUL
        return Outcome(content=f"{error.code}: {error.message}", failed=True, unknown=lost)
    except HoldfastError as error:
        return explanation(error)
