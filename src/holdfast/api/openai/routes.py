"""The OpenAI-compatible routes: agents as models, and chat completions."""

from typing import Annotated, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, HeaderParameter, JSONBody

from holdfast.api.openai.completions import CompletionControl
from holdfast.api.openai.requests import CompletionRequest, to_new_completion
from holdfast.api.openai.responses import (
    OPENAI_ERROR_HANDLERS,
    ChatCompletion,
    CompletionErrorEnvelope,
    CompletionStream,
    ListedModel,
    ModelList,
    completion_headers,
    to_chat_completion,
    to_listed_model,
)
from holdfast.api.routes.runs import IdempotencyKey
from holdfast.api.streams.sse import StreamResponse

_TAGS: Final = ["openai"]
_ERROR_SCHEMA: Final = {"errors": CompletionErrorEnvelope}

ThreadHeader = Annotated[
    str | None,
    HeaderParameter(
        name="X-Holdfast-Thread",
        pattern=r"^[A-Za-z0-9_-]{1,128}\Z",
        description="The thread that the chat goes on in; it is made if there is none of that id.",
    ),
]


@get(
    "/v1/models",
    summary="List agents as models",
    tags=_TAGS,
    exception_handlers=OPENAI_ERROR_HANDLERS,
    opt=_ERROR_SCHEMA,
)
async def list_models(completions: NamedDependency[CompletionControl]) -> ModelList:
    """Return the agents that chat, by name."""
    return ModelList(data=[to_listed_model(agent) for agent in completions.models()])


@get(
    "/v1/models/{name:str}",
    summary="Read an agent as a model",
    tags=_TAGS,
    exception_handlers=OPENAI_ERROR_HANDLERS,
    opt=_ERROR_SCHEMA,
)
async def read_model(completions: NamedDependency[CompletionControl], name: FromPath[str]) -> ListedModel:
    """Return an agent that chats."""
    return to_listed_model(completions.model(name))


@post(
    "/v1/chat/completions",
    summary="Complete a chat",
    tags=_TAGS,
    status_code=200,
    exception_handlers=OPENAI_ERROR_HANDLERS,
    opt={**_ERROR_SCHEMA, "content": {"application/json": ChatCompletion, "text/event-stream": str}},
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
    asked = to_new_completion(data, thread=thread, key=key)
    if not data.stream:
        begun = await completions.start(asked)
        return Response(
            to_chat_completion(begun, await completions.wait(begun)), headers=dict(completion_headers(begun))
        )
    completions.check_room()
    begun = await completions.start(asked)
    usage = data.stream_options is not None and bool(data.stream_options.include_usage)
    return StreamResponse(CompletionStream(completions, begun, await completions.follow(begun), include_usage=usage))


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (list_models, read_model, complete_chat)
