"""A provider's model, through the model layer of pydantic-ai (its agent is not used).

It never retries: the caller retries, durably.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Final, Literal, TypeAlias

from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.models import StreamedResponse
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from holdfast.domain.errors import ModelUnavailable
from holdfast.domain.limits import MAX_TOKENS_PER_CALL, Usage
from holdfast.domain.model_provider import DEFAULT_PROVIDER_TIMEOUT_SECONDS
from holdfast.models.messages import provider_metadata, to_history, to_request_parameters
from holdfast.models.prices import Prices
from holdfast.models.provider_errors import wrap_open_errors, wrap_stream_errors
from holdfast.models.streaming import StreamConverter
from holdfast.ports.model import ModelCallPurpose, ModelDelta, ModelFinished, ModelRequest, TextDelta

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
    ) -> None:
        self._name = name
        self._model = model
        self._prices = prices
        self._context_window = context_window or model.context_window or DEFAULT_CONTEXT_WINDOW_TOKENS
        self._idle_timeout = timeout
        self._fixed_settings = _fixed_settings(model, timeout)
        self._key = key

    @property
    def name(self) -> str:
        """The name in the configuration, `provider:model`."""
        return self._name

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
        parameters = to_request_parameters(request)
        messages = to_history(request.messages)
        async with AsyncExitStack() as stack:
            with wrap_open_errors(self._name, key=self._key):
                call = self._model.request_stream(
                    self._model.prepare_messages(messages, parameters), self._settings(request), parameters
                )
                response = await stack.enter_async_context(call)
            yield await stack.enter_async_context(aclosing(self._deltas(request, response)))

    async def _deltas(self, request: ModelRequest, stream: StreamedResponse) -> AsyncGenerator[ModelDelta, None]:
        converter = StreamConverter(call.id for message in request.messages for call in message.tool_calls)
        async with aclosing(wrap_stream_errors(aiter(stream), self._name, key=self._key)) as events:
            async for event in events:
                for delta in converter.convert(event):
                    yield delta
        response = stream.get()
        reason = self._finish_reason(response)
        refusal = (response.provider_details or {}).get("refusal")
        if reason == "refused" and refusal and not converter.has_output:
            yield TextDelta(str(refusal))
        yield ModelFinished(usage=self._usage(response.usage), reason=reason, provider_data=provider_metadata(response))

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

    def _finish_reason(self, response: ModelResponse) -> _FinishReason:
        """Return why the response ended; raise `ModelUnavailable` if it was cut off."""
        # pydantic-ai reports a stream that just ends as stopped; a provider that finished names a reason.
        unnamed = response.finish_reason in (None, "stop") and "finish_reason" not in (response.provider_details or {})
        truncated = unnamed and self._model.provider is not None
        if response.state != "complete" or response.finish_reason == "error" or truncated:
            raise ModelUnavailable(f"the response of `{self._name}` was cut off")
        if response.finish_reason == "content_filter":
            return "refused"
        if response.finish_reason == "length":
            return "length"
        return "tool_calls" if any(isinstance(part, ToolCallPart) for part in response.parts) else "stop"

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
