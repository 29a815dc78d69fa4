"""The routes that only clients of the protocol use; they also start runs where everybody does."""

from typing import Final

from litestar import get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody

from holdfast.api.ag_ui.body import AgUiBody
from holdfast.api.ag_ui.stream import segment_stream
from holdfast.api.parameters import Identifier, anywhere, run_named
from holdfast.api.streams.sse import StreamResponse
from holdfast.control.ag_ui.ag_ui import AgUiControl
from holdfast.domain.events.messages import RunAgentInput
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.space import DEFAULT_SPACE

_TAGS: Final = ["ag-ui"]
_SSE: Final = {"content": {"text/event-stream": str}}


@post(anywhere("/agents/{name:str}/run"), summary="Run an agent", tags=_TAGS, status_code=200, dto=AgUiBody, opt=_SSE)
async def run_agent(
    ag_ui: NamedDependency[AgUiControl],
    name: FromPath[str],
    data: JSONBody[RunAgentInput],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    base_run_id: Identifier = None,
) -> StreamResponse:
    """Run an agent as AG-UI 1.0 says, on the thread that the client names, which is made on first use."""
    return segment_stream(await ag_ui.run_agent(space_id, name, data, base=run_named(base_run_id)))


@get(anywhere("/runs/{run_id:str}/segment"), summary="Join a segment", tags=_TAGS, opt=_SSE)
async def join_segment(
    ag_ui: NamedDependency[AgUiControl], run_id: FromPath[RunId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> StreamResponse:
    """Send a segment from its beginning, with the conversation before it, until it ends.

    It is for clients of AG-UI that were cut off: what they have of the segment is taken back and sent again. By the id
    of a run it is its latest segment.
    """
    return segment_stream(await ag_ui.join(space_id, run_id))


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (run_agent, join_segment)
