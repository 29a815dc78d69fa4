"""A model call on the direct lane.

pydantic-ai builds the request, which is taken from its client before it is sent. The URL and the headers are those
that the client itself would send: it builds one request for each combination of them, for a transport that only looks.

A response with an error is given to the library as if it had received it, so that errors are the same on both lanes,
and so that what pydantic-ai does about some of them (Anthropic's stale reasoning) still happens.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Never, Protocol, TypeAlias

import httpx2
import msgspec
from pydantic_ai.exceptions import ModelAPIError, ModelConnectionError, ModelTimeoutError
from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.models import StreamedResponse as LibraryResponse

from holdfast.domain.errors import HoldfastError, ModelRefused
from holdfast.models.direct_lane.anthropic import AnthropicDecoder
from holdfast.models.direct_lane.eligibility import chat_profile
from holdfast.models.direct_lane.openai_chat import ChatDecoder
from holdfast.models.direct_lane.openai_responses import ResponsesDecoder
from holdfast.models.direct_lane.response import ProviderErrorEvent, StreamedResponse, UnsupportedPart
from holdfast.models.direct_lane.sse import SseDecoder, SseEvent
from holdfast.models.direct_lane.transport import (
    LaneTransport,
    drain,
    environment_proxy,
    is_timeout,
    read_error_body,
    transport_errors,
)
from holdfast.models.provider_errors import PROVIDER_ERRORS
from holdfast.models.sdk_requests import Interceptor, Parameters, intercept_requests

if TYPE_CHECKING:
    import aiohttp

Opening: TypeAlias = AbstractAsyncContextManager[LibraryResponse]

_RESOURCES: Final[dict[str, tuple[str, Parameters]]] = {
    "OpenAIChatModel": ("chat.completions", {"messages": []}),
    "OpenAIResponsesModel": ("responses", {"input": []}),
    "AnthropicModel": ("beta.messages", {"messages": [], "max_tokens": 1}),
}
"""The resource of the client that each class of models calls, and the parameters that it requires besides the model."""
_HEADER_PARAMETERS: Final = ("extra_headers", "betas", "timeout")
_NOT_IN_BODY: Final = frozenset({*_HEADER_PARAMETERS, "extra_body", "extra_query"})
_OWN_HEADERS: Final = frozenset({"host", "content-length", "accept-encoding", "connection"})
"""Headers that belong to the HTTP client."""
_MAX_TARGETS: Final = 100
_UNENCODABLE: Final = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)


class RequestTarget(NamedTuple):
    """Where requests go, and their headers."""

    url: str
    headers: dict[str, str]
    proxy: str | None


class LaneRequest(NamedTuple):
    """A request as it is sent."""

    target: RequestTarget
    body: bytes


class ErrorResponse(NamedTuple):
    """A response that the library turns into an error."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class EventDecoder(Protocol):
    """Decodes the events of one response of a provider."""

    def feed(self, event: SseEvent) -> None:
        """Decode an event."""


class DirectLane:
    """Sends the requests of one model."""

    def __init__(self, model: PydanticModel, transport: LaneTransport, *, idle_timeout_seconds: float) -> None:
        provider: Any = model.provider
        kind = type(model).__name__
        self._model: Any = model
        self._client: Any = provider.client
        self._transport = transport
        self._idle_timeout = idle_timeout_seconds
        self._path, self._required = _RESOURCES[kind]
        self._targets: dict[Any, RequestTarget] = {}
        self._provider_name: str = provider.name
        self._provider_url: str = provider.base_url
        self._profile = chat_profile(model) if kind == "OpenAIChatModel" else None
        transport.prepare(str(self._client.base_url))

    async def capture(self, opening: Opening) -> LaneRequest | None:
        """Return the request that `opening` would send; null in doubt."""
        try:
            with intercept_requests(_raise_captured):
                async with opening:
                    return None
        except _Captured as captured:
            parameters = captured.parameters
        if not all(_is_omitted(parameters.get(name)) for name in ("background", "extra_query")):
            return None
        target = await self._target(parameters)
        if target is None:
            return None
        body = {name: value for name, value in parameters.items() if name not in _NOT_IN_BODY}
        body = {name: value for name, value in body.items() if not _is_sentinel(value)}
        body |= parameters.get("extra_body") or {}
        with suppress(*_UNENCODABLE):
            return LaneRequest(target, msgspec.json.encode(body))
        return None

    async def send(self, request: LaneRequest, *, used_ids: Iterable[str]) -> "LaneStream | ErrorResponse":
        """Send a request and return its response once it has begun."""
        target = request.target
        try:
            http = await self._transport.post(
                target.url,
                headers=target.headers,
                body=request.body,
                proxy=target.proxy,
                idle_seconds=self._idle_timeout,
            )
        except transport_errors() as exc:
            raise self.connection_error(exc) from exc
        try:
            if http.status >= 400:
                return ErrorResponse(http.status, http.headers, await read_error_body(http))
            if http.status >= 300:
                raise ModelRefused(
                    f"`{self._model.model_name}` answered with a redirect to "
                    f"{http.headers.get('location', 'nowhere')[:500]}, and keys are not sent there: "
                    "set `base_url` of its provider to the final URL",
                    status=http.status,
                )
            stream = LaneStream(http, *self._event_decoder(used_ids))
            while not (stream.events or stream.failure or stream.ended):
                await stream.advance()
            if stream.events == 0 and stream.error_event is not None:
                return stream.error_response()
        except BaseException:
            http.close()
            raise
        return stream

    def replay(self, error: ErrorResponse) -> Interceptor:
        """Return an interceptor that lets the client receive `error`."""
        headers = {name: value for name, value in error.headers.items() if name.lower() not in _BODY_HEADERS}

        def respond(_: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(error.status, headers=headers, content=error.body)

        resource = attrgetter(self._path)(self._with_transport(httpx2.MockTransport(respond)))
        return lambda parameters: resource.create(**{**parameters, **self._required})

    def connection_error(self, exc: Exception) -> ModelAPIError:
        """Return pydantic-ai's error for a failed connection."""
        if is_timeout(exc):
            return ModelTimeoutError(self._model.model_name, "Request timed out.")
        return ModelConnectionError(self._model.model_name, f"Connection error: {exc or type(exc).__name__}")

    @property
    def provider_url(self) -> str:
        """The URL that is stored with kept parts."""
        return self._provider_url

    @property
    def canonical_system(self) -> str | None:
        """The system that is stored with kept parts."""
        system: str | None = getattr(self._model, "_canonical_system_stamp", None)
        return system

    def _event_decoder(self, used_ids: Iterable[str]) -> tuple[EventDecoder, StreamedResponse]:
        output = StreamedResponse(self._provider_name, self._model.model_name, used_ids)
        if self._profile is not None:
            return ChatDecoder(output, self._profile, provider_url=self._provider_url), output
        if self._path == "responses":
            return ResponsesDecoder(output, provider_url=self._provider_url), output
        return AnthropicDecoder(output, provider_url=self._provider_url), output

    async def _target(self, parameters: Parameters) -> RequestTarget | None:
        """Return the URL and headers that the client would use; null if they differ from request to request."""
        given = {name: parameters[name] for name in _HEADER_PARAMETERS if not _is_omitted(parameters.get(name))}
        client = self._client
        key = (str(client.base_url), *client.auth_headers.items(), repr(given))
        target = self._targets.get(key)
        if target is None:
            target = await self._look_at_request(parameters["model"], given)
            if any("idempotency" in name for name in target.headers):
                return None
            if len(self._targets) >= _MAX_TARGETS:
                self._targets.clear()
            self._targets[key] = target
        return target

    async def _look_at_request(self, model: str, given: Parameters) -> RequestTarget:
        seen: list[httpx2.Request] = []

        def look(request: httpx2.Request) -> httpx2.Response:
            seen.append(request)
            return httpx2.Response(200, headers={"content-type": "text/event-stream"})

        resource = attrgetter(self._path)(self._with_transport(httpx2.MockTransport(look)))
        await (await resource.create(model=model, stream=True, **self._required, **given)).close()
        (request,) = seen
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OWN_HEADERS}
        return RequestTarget(str(request.url), headers, environment_proxy(str(request.url)))

    def _with_transport(self, transport: httpx2.AsyncBaseTransport) -> Any:
        """Return the client with another transport, and otherwise as it is."""
        http = self._client._client
        return self._client.with_options(
            http_client=httpx2.AsyncClient(transport=transport, headers=http.headers, params=http.params)
        )


class LaneStream:
    """A response that is being received."""

    def __init__(self, http: "aiohttp.ClientResponse", stream: EventDecoder, output: StreamedResponse) -> None:
        self.output: Final = output
        self.failure: Exception | None = None
        """Why the response could not be read to its end. What came before it is in the output."""
        self.error_event: SseEvent | None = None
        """The event that is an error of the provider."""
        self.events = 0
        self.ended = False
        self._http = http
        self._stream = stream
        self._decoder = SseDecoder()

    @property
    def content_type(self) -> str:
        """The type of the response."""
        return self._http.content_type

    async def advance(self) -> None:
        """Read what has arrived, or wait for more."""
        try:
            packet = await self._http.content.readany()
            self.ended = not packet
            for event in self._decoder.feed(packet):
                self._feed(event)
                if self.output.ended:
                    self.ended = True
                    return
        except _failures() as exc:  # the caller raises it, after the output before it
            self.failure = exc

    def _feed(self, event: SseEvent) -> None:
        try:
            self._stream.feed(event)
        except ProviderErrorEvent:
            self.error_event = event
            raise
        self.events += 1

    def error_response(self) -> ErrorResponse:
        """Return a response whose only event is the error."""
        name, data = self.error_event or SseEvent(b"", b"")
        lines = [b"data: " + line for line in data.split(b"\n")]
        body = b"\n".join([b"event: " + name, *lines] if name else lines) + b"\n\n"
        return ErrorResponse(self._http.status, self._http.headers, body)

    async def drain(self) -> None:
        """Read the end of the body, so that the connection can be used again."""
        with suppress(*transport_errors()):
            await drain(self._http)

    def close(self) -> None:
        """Close the connection, unless the response was read to its end."""
        self._http.close()


@cache
def _failures() -> tuple[type[Exception], ...]:
    """Return what may be wrong with a response."""
    own = (ProviderErrorEvent, UnsupportedPart, HoldfastError)
    return (*PROVIDER_ERRORS, *transport_errors(), msgspec.MsgspecError, *own)


_BODY_HEADERS: Final = frozenset({"content-length", "content-encoding", "transfer-encoding", "connection"})


class _Captured(Exception):
    def __init__(self, parameters: Parameters) -> None:
        super().__init__()
        self.parameters = parameters


async def _raise_captured(parameters: Parameters) -> Never:
    raise _Captured(parameters)


def _is_omitted(value: Any) -> bool:
    return value is None or _is_sentinel(value)


def _is_sentinel(value: Any) -> bool:
    """Return whether a value is what the clients use for a parameter that is not given."""
    return type(value).__name__ in ("Omit", "NotGiven")
