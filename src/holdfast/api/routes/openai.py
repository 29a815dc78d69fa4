"""The routes of that API: agents as models, and chats completed by them."""

from typing import Annotated, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, HeaderParameter, JSONBody

from holdfast.api.openai.answers import ChatCompletion, Model, ModelList, answer_of, headers_of, model_of
from holdfast.api.openai.bodies import CompletionRequest
from holdfast.api.openai.reading import asked_by
from holdfast.api.openai.refusals import REFUSALS, CompletionRefusal
from holdfast.api.openai.stream import CompletionStream
from holdfast.api.routes.runs import IdempotencyKey
from holdfast.api.streams.sse import StreamResponse
from holdfast.control.openai.completions import CompletionControl

_TAGS: Final = ["openai"]
_OPT: Final = {"errors": CompletionRefusal}

ThreadHeader = Annotated[
    str | None,
    HeaderParameter(
        name="X-Holdfast-Thread",
        pattern=r"^[A-Za-z0-9_-]{1,128}\Z",
        description="The thread that the chat goes on in; it is made if there is none of that id.",
    ),
]


@get("/v1/models", summary="List agents as models", tags=_TAGS, exception_handlers=REFUSALS, opt=_OPT)
async def list_models(completions: NamedDependency[CompletionControl]) -> ModelList:
    """Return the agents that chat, by name."""
    return ModelList(data=[model_of(agent) for agent in completions.models()])


@get("/v1/models/{name:str}", summary="Read an agent as a model", tags=_TAGS, exception_handlers=REFUSALS, opt=_OPT)
async def read_model(completions: NamedDependency[CompletionControl], name: FromPath[str]) -> Model:
    """Return an agent that chats."""
    return model_of(completions.model(name))


@post(
    "/v1/chat/completions",
    summary="Complete a chat",
    tags=_TAGS,
    status_code=200,
    exception_handlers=REFUSALS,
    opt={**_OPT, "content": {"application/json": ChatCompletion, "text/event-stream": str}},
)
async def complete_chat(
    completions: NamedDependency[CompletionControl],
    data: JSONBody[CompletionRequest],
    thread: ThreadHeader = None,
    key: IdempotencyKey = None,
) -> Response[ChatCompletion] | StreamResponse:
    """Have an agent say what comes next in a chat, as an answer or, with `stream`, as it says it.

    The run goes on if the caller leaves. `X-Holdfast-Thread` of the answer names the thread that the chat is kept in.
    """
    asked = asked_by(data, thread=thread, key=key)
    if not data.stream:
        begun = await completions.begin(asked)
        return Response(answer_of(begun, await completions.finish(begun)), headers=dict(headers_of(begun)))
    completions.check_room()
    begun = await completions.begin(asked)
    usage = data.stream_options is not None and bool(data.stream_options.include_usage)
    return StreamResponse(CompletionStream(completions, begun, await completions.follow(begun), include_usage=usage))


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (list_models, read_model, complete_chat)
