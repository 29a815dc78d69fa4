"""The OpenAI-compatible routes: agents as models, chat completions, and responses."""

from typing import Annotated, Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, HeaderParameter, JSONBody

from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey
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
)
from holdfast.api.openai.responses_api import (
    ModelResponse,
    ResponseRequest,
    ResponsesStream,
    to_model_response,
    to_new_response,
)
from holdfast.api.streams.sse import StreamResponse

_OPTIONS: Final[dict[str, Any]] = {"tags": ["openai"], "exception_handlers": OPENAI_ERROR_HANDLERS}
_ERROR_SCHEMA: Final = {"errors": CompletionErrorEnvelope}

ThreadHeader = Annotated[
    str | None,
    HeaderParameter(
        name="X-Holdfast-Thread",
        pattern=r"^[A-Za-z0-9_-]{1,128}\Z",
        description="The thread of the chat; it is created if it does not exist.",
    ),
]


@get("/v1/models", summary="List agents as models", opt=_ERROR_SCHEMA, **_OPTIONS)
async def list_models(completions: NamedDependency[CompletionControl]) -> ModelList:
    """Return the agents that accept chats, by name."""
    return ModelList(data=[ListedModel(id=agent.name) for agent in await completions.models()])


@get("/v1/models/{name:str}", summary="Read an agent as a model", opt=_ERROR_SCHEMA, **_OPTIONS)
async def read_model(completions: NamedDependency[CompletionControl], name: FromPath[str]) -> ListedModel:
    """Return an agent that accepts chats."""
    return ListedModel(id=(await completions.model(name)).name)


@post(
    "/v1/chat/completions",
    summary="Complete a chat",
    status_code=200,
    opt={
        **_ERROR_SCHEMA,
        "content": {"application/json": ChatCompletion, "text/event-stream": str},
        "headers": {"200": REPLAYED_HEADER},
    },
    **_OPTIONS,
)
async def complete_chat(
    completions: NamedDependency[CompletionControl],
    data: JSONBody[CompletionRequest],
    thread: ThreadHeader = None,
    key: IdempotencyKey = None,
) -> Response[ChatCompletion] | StreamResponse:
    """Return the next reply of an agent in a chat; with `stream` as a stream of chunks.

    The run continues if the client disconnects. The response header `X-Holdfast-Thread` names the thread of the chat.
    """
    new = to_new_completion(data, thread=thread, key=key)
    if data.stream:
        started, subscriber = await completions.start_and_subscribe(new)
        usage = data.stream_options is not None and bool(data.stream_options.include_usage)
        return StreamResponse(CompletionStream(completions, started, subscriber, include_usage=usage))
    started = await completions.start(new)
    completion = await completions.wait(started)
    return Response(to_chat_completion(started, completion), headers=completion_headers(started))


@post(
    "/v1/responses",
    summary="Create a response",
    status_code=200,
    opt={
        **_ERROR_SCHEMA,
        "content": {"application/json": ModelResponse, "text/event-stream": str},
        "headers": {"200": REPLAYED_HEADER},
    },
    **_OPTIONS,
)
async def create_response(
    completions: NamedDependency[CompletionControl], data: JSONBody[ResponseRequest], key: IdempotencyKey = None
) -> Response[ModelResponse] | StreamResponse:
    """Return the response of an agent; with `stream` as the events of the Responses API.

    With `previous_response_id` the conversation continues after that response; used twice, it branches. The run
    continues if the client disconnects.
    """
    new = to_new_response(data, key=key)
    if data.stream:
        started, subscriber = await completions.start_and_subscribe(new)
        return StreamResponse(ResponsesStream(completions, data, started, subscriber))
    started = await completions.start(new)
    completion = await completions.wait(started)
    return Response(to_model_response(data, started, completion), headers=completion_headers(started))


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (list_models, read_model, complete_chat, create_response)
