"""A provider's model: pydantic-ai builds its requests, and its library or the direct lane sends them.

It never retries: the caller retries, durably. pydantic-ai's agent is not used.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import FinishReason, ToolCallPart
from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from holdfast.domain.errors import HoldfastError, ModelUnavailable
from holdfast.domain.limits import MAX_TOKENS_PER_CALL, Usage
from holdfast.domain.model_provider import DEFAULT_PROVIDER_TIMEOUT_SECONDS
from holdfast.domain.step import Lane
from holdfast.models.direct_lane.lane import DirectLane, ErrorResponse, LaneStream, Opening
from holdfast.models.direct_lane.response import UnsupportedPart
from holdfast.models.direct_lane.transport import transport_errors
from holdfast.models.messages import provider_metadata, to_history, to_request_parameters
from holdfast.models.prices import Prices
from holdfast.models.provider_errors import to_model_error, wrap_open_errors, wrap_stream_errors
from holdfast.models.sdk_requests import intercept_requests
from holdfast.models.streaming import StreamConverter
from holdfast.models.text import replace_surrogates
from holdfast.ports.model import ModelCallPurpose, ModelDelta, ModelFinished, ModelRequest, TextDelta

_log: Final = logging.getLogger("holdfast.models")

DEFAULT_CONTEXT_WINDOW_TOKENS: Final = 128_000
"""For a model whose context window is not known."""

_FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "refused"]


class ProviderModel:
    """`Model` of a provider."""

    def __init__(
        self,
        name: str,
        model: PydanticModel,
        *,
        prices: Prices | None = None,
        context_window: int | None = None,
        timeout: float = DEFAULT_PROVIDER_TIMEOUT_SECONDS,
        key: str | None = None,
        lane: DirectLane | str = "it was made without a lane",
    ) -> None:
        """Call a model on the direct lane, or by its library for the reason that `lane` gives."""
        _cache_tool_schemas(model)
        self._name = name
        self._model = model
        self._prices = prices
        self._context_window = context_window or model.context_window or DEFAULT_CONTEXT_WINDOW_TOKENS
        self._idle_timeout = timeout
        self._fixed_settings = _fixed_settings(model, timeout)
        self._key = key
        self._lane = lane if isinstance(lane, DirectLane) else None
        self.reason_against_direct_lane: Final = lane if isinstance(lane, str) else None
        """Why the model is called by its library; null if it takes the direct lane."""

    @property
    def name(self) -> str:
        """The name in the configuration, `provider:model`."""
        return self._name

    @property
    def address(self) -> str | None:
        """The base URL of the provider, without credentials."""
        try:
            url = urlsplit(self._model.base_url or "")
        except (AttributeError, ValueError, UserError):  # not every provider has one
            return None
        return url._replace(netloc=url.netloc.rpartition("@")[2], query="", fragment="").geturl() or None

    @property
    def context_window(self) -> int:
        """Tokens: from the settings, else the list of models, else the default."""
        return self._context_window

    @property
    def price_known(self) -> bool:
        """Whether the model has a price."""
        return self._prices is not None

    @property
    def idle_timeout_seconds(self) -> float:
        """The timeout of the settings."""
        return self._idle_timeout

    def cost(self, *, input_tokens: int, output_tokens: int) -> float | None:
        """Return the cost of so many tokens, if there is a price."""
        if self._prices is None:
            return None
        return self._prices.cost(RequestUsage(input_tokens=input_tokens, output_tokens=output_tokens))

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelDelta], None]:
        """Call the model. Leaving the block closes the connection."""
        native_output = bool(self._model.profile.get("supports_json_schema_output"))
        parameters = to_request_parameters(request, native_output=native_output)
        messages = to_history(request.messages)
        async with AsyncExitStack() as stack:
            with wrap_open_errors(self._name, key=self._key):
                messages = self._model.prepare_messages(messages, parameters)
                opening = partial(self._model.request_stream, messages, self._settings(request), parameters)
                response = await self._open(request, opening, stack)
            if isinstance(response, LaneStream):
                yield await stack.enter_async_context(aclosing(self._direct_deltas(response, opening)))
            else:
                deltas = await stack.enter_async_context(aclosing(self._deltas(request, response)))
                yield await stack.enter_async_context(aclosing(wrap_stream_errors(deltas, self._name, key=self._key)))

    async def _open(
        self, request: ModelRequest, opening: Callable[[], Opening], stack: AsyncExitStack
    ) -> LaneStream | StreamedResponse:
        """Open a call on the lane; in doubt, and for a response with an error, by the library."""
        direct = await self._lane.capture(opening()) if self._lane is not None else None
        if self._lane is None or direct is None:
            return await stack.enter_async_context(opening())
        used_ids = (call.id for message in request.messages for call in message.tool_calls)
        response = await self._lane.send(direct, used_ids=used_ids)
        if isinstance(response, ErrorResponse):
            with intercept_requests(self._lane.replay(response)):
                return await stack.enter_async_context(opening())
        return stack.enter_context(closing(response))

    async def _direct_deltas(
        self, stream: LaneStream, opening: Callable[[], Opening]
    ) -> AsyncGenerator[ModelDelta, None]:
        output, lane = stream.output, self._lane
        assert lane is not None
        while True:
            for delta in output.take_deltas():
                yield delta
            if stream.failure is not None:
                raise await self._direct_error(stream, lane, opening) from stream.failure
            if stream.ended:
                break
            await stream.advance()
        output.finish()
        for delta in output.take_deltas():
            yield delta
        if not stream.events:
            raise ModelUnavailable(f"`{self._name}` sent no response, but {stream.content_type}")
        reason = self._finish_reason(
            output.finish_reason, named=output.finish_named, complete=output.complete, has_calls=output.has_calls
        )
        if reason in ("stop", "tool_calls") and output.has_unnamed_calls:
            raise ModelUnavailable(f"`{self._name}` called a tool without naming it")
        if reason == "refused" and output.refusal and not output.has_output:
            yield TextDelta(replace_surrogates(output.refusal))
        kept = output.to_model_response(provider_url=lane.provider_url, canonical_system=lane.canonical_system)
        yield ModelFinished(
            usage=self._usage(output.usage),
            reason=reason,
            provider_data={} if kept is None else provider_metadata(kept),
            lane=Lane.DIRECT,
        )
        await stream.drain()

    async def _direct_error(
        self, stream: LaneStream, lane: DirectLane, opening: Callable[[], Opening]
    ) -> HoldfastError:
        """Return our error for a response that failed in the middle."""
        failure = stream.failure
        if isinstance(failure, HoldfastError):
            return failure
        if isinstance(failure, UnsupportedPart):
            self._lane = None
            _log.warning("`%s` leaves the direct lane: it returned a part of type `%s`", self._name, failure)
            return ModelUnavailable(f"`{self._name}` returned a part that needs its library, which the next call uses")
        if stream.error_event is not None:
            return await self._library_error(lane, stream.error_response(), opening)
        if isinstance(failure, transport_errors()):
            failure = lane.connection_error(failure)
        assert isinstance(failure, Exception)
        return to_model_error(failure, name=self._name, key=self._key)

    async def _library_error(
        self, lane: DirectLane, error: ErrorResponse, opening: Callable[[], Opening]
    ) -> HoldfastError:
        """Return the error that the library raises for a response."""
        try:
            with wrap_open_errors(self._name, key=self._key), intercept_requests(lane.replay(error), once=False):
                async with opening() as response:
                    async for _ in wrap_stream_errors(aiter(response), self._name, key=self._key):
                        pass
        except HoldfastError as exc:
            return exc
        return ModelUnavailable(f"`{self._name}` sent an error")

    async def _deltas(self, request: ModelRequest, stream: StreamedResponse) -> AsyncGenerator[ModelDelta, None]:
        converter = StreamConverter(call.id for message in request.messages for call in message.tool_calls)
        async for event in stream:
            for delta in converter.convert(event):
                yield delta
        response = stream.get()
        details = response.provider_details or {}
        reason = self._finish_reason(
            response.finish_reason,
            named="finish_reason" in details,
            complete=response.state == "complete",
            has_calls=any(isinstance(part, ToolCallPart) for part in response.parts),
        )
        refusal = details.get("refusal")
        if reason == "refused" and refusal and not converter.has_output:
            yield TextDelta(str(refusal))
        yield ModelFinished(
            usage=self._usage(response.usage),
            reason=reason,
            provider_data=provider_metadata(response),
            lane=Lane.LIBRARY,
        )

    def _settings(self, request: ModelRequest) -> ModelSettings:
        settings = ModelSettings(**self._fixed_settings)
        if request.settings.temperature is not None:
            settings["temperature"] = request.settings.temperature
        if request.settings.thinking is not None:
            settings["thinking"] = request.settings.thinking
        if request.settings.max_output_tokens is not None:
            settings["max_tokens"] = request.settings.max_output_tokens
        if request.purpose is ModelCallPurpose.TURN:
            # Each turn of an agent starts with the same prefix.
            settings["cache"] = True
        return settings

    def _finish_reason(
        self, reason: FinishReason | None, *, named: bool, complete: bool, has_calls: bool
    ) -> _FinishReason:
        """Return why the response ended; raise `ModelUnavailable` if it was cut off."""
        # pydantic-ai reports a stream that just ends as stopped; a provider that finished names a reason.
        unnamed = reason in (None, "stop") and not named and self._model.provider is not None
        if not complete or reason == "error" or unnamed:
            raise ModelUnavailable(f"the response of `{self._name}` was cut off")
        if reason == "content_filter":
            return "refused"
        if reason == "length":
            return "length"
        return "tool_calls" if has_calls else "stop"

    def _usage(self, usage: RequestUsage) -> Usage:
        # Every call has input. Without it the usage was not reported, or is wrong: the cost is unknown, not zero.
        plausible = 0 < usage.input_tokens <= MAX_TOKENS_PER_CALL and usage.output_tokens <= MAX_TOKENS_PER_CALL
        reported = plausible and not usage.unmeasured_requests
        input_tokens = max(0, min(usage.input_tokens, MAX_TOKENS_PER_CALL))
        return Usage(
            input_tokens=input_tokens,
            output_tokens=max(0, min(usage.output_tokens, MAX_TOKENS_PER_CALL)),
            cached_input_tokens=max(0, min(usage.cache_read_tokens, input_tokens)),
            cost_usd=self._prices.cost(usage) if reported and self._prices is not None else None,
        )


def _fixed_settings(model: PydanticModel, timeout: float) -> ModelSettings:
    """Return the settings of every call, among those that the model supports."""
    settings = ModelSettings()
    if "timeout" not in model.unsupported_settings:
        settings["timeout"] = timeout
    # Omitted where the client itself does not retry, which is cheaper.
    retries = getattr(getattr(model.provider, "client", None), "max_retries", None)
    if retries != 0 and "max_retries" not in model.unsupported_settings:
        settings["max_retries"] = 0
    return settings


MAX_CACHED_TOOL_SCHEMAS: Final = 1000
"""Per model. The tools of an agent have the same schemas in each of its calls."""


def _cache_tool_schemas(model: Any) -> None:
    """Let a model adapt the schema of a tool to its provider once, and not in every call.

    Schemas are known by identity: a tool that changes has a new one.
    """
    if type(model).customize_request_parameters is not PydanticModel.customize_request_parameters:
        return  # what it adapts may depend on more than the tool
    adapt = model.customize_request_parameters
    cache: dict[tuple[int, str], tuple[ToolDefinition, ToolDefinition]] = {}

    def adapt_tool(tool: ToolDefinition) -> ToolDefinition:
        key = id(tool.parameters_json_schema), tool.name
        if key not in cache or cache[key][0] != tool:
            if len(cache) >= MAX_CACHED_TOOL_SCHEMAS:
                cache.clear()
            cache[key] = tool, adapt(ModelRequestParameters(function_tools=[tool])).function_tools[0]
        return cache[key][1]

    def adapt_parameters(parameters: ModelRequestParameters) -> ModelRequestParameters:
        tools = [adapt_tool(tool) for tool in parameters.function_tools]
        adapted: ModelRequestParameters = adapt(replace(parameters, function_tools=[]))
        return replace(adapted, function_tools=tools)

    model.customize_request_parameters = adapt_parameters
