"""A model of a provider, over the model layer of pydantic-ai; pydantic-ai's agent is not used.

It never retries: the caller retries, durably.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Final, Literal, TypeAlias

from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models import Model as Provided
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

DEFAULT_CONTEXT_WINDOW: Final = 128_000
"""Tokens of a model that nobody knows better about."""

_FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "refused"]


class ProviderModel:
    """`Model` at a provider."""

    def __init__(
        self,
        name: str,
        model: Provided,
        *,
        prices: Prices | None = None,
        context_window: int | None = None,
        timeout: float = DEFAULT_PROVIDER_TIMEOUT_SECONDS,
        key: str | None = None,
    ) -> None:
        self._name = name
        self._model = model
        self._prices = prices
        self._context_window = context_window or model.context_window or DEFAULT_CONTEXT_WINDOW
        self._patience = timeout
        self._fixed_settings = _fixed_settings(model, timeout)
        self._key = key

    @property
    def name(self) -> str:
        """The name that it was asked for by."""
        return self._name

    @property
    def context_window(self) -> int:
        """What the settings say, else the list of models, else the default."""
        return self._context_window

    @property
    def price_known(self) -> bool:
        """Whether there is a price for it."""
        return self._prices is not None

    @property
    def idle_timeout_seconds(self) -> float:
        """As long as its settings say."""
        return self._patience

    def cost(self, *, input_tokens: int, output_tokens: int) -> float | None:
        """Return what so many tokens cost, if there is a price."""
        if self._prices is None:
            return None
        return self._prices.cost(RequestUsage(input_tokens=input_tokens, output_tokens=output_tokens))

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelDelta], None]:
        """Make a call. Leaving the block closes its connection."""
        asked = to_request_parameters(request)
        messages = to_history(request.messages)
        async with AsyncExitStack() as stack:
            with wrap_open_errors(self._name, key=self._key):
                call = self._model.request_stream(
                    self._model.prepare_messages(messages, asked), self._settings(request), asked
                )
                response = await stack.enter_async_context(call)
            yield await stack.enter_async_context(aclosing(self._deltas(request, response)))

    async def _deltas(self, request: ModelRequest, response: StreamedResponse) -> AsyncGenerator[ModelDelta, None]:
        transcript = StreamConverter(call.id for message in request.messages for call in message.tool_calls)
        async with aclosing(wrap_stream_errors(aiter(response), self._name, key=self._key)) as events:
            async for event in events:
                for delta in transcript.convert(event):
                    yield delta
        answer = response.get()
        reason = self._reason(answer)
        if reason == "refused" and not transcript.has_output and (excuse := _details(answer).get("refusal")):
            yield TextDelta(str(excuse))
        yield ModelFinished(usage=self._usage(answer.usage), reason=reason, provider_data=provider_metadata(answer))

    def _settings(self, request: ModelRequest) -> ModelSettings:
        settings = ModelSettings(**self._fixed_settings)
        wanted = request.settings
        if wanted.temperature is not None:
            settings["temperature"] = wanted.temperature
        if wanted.thinking is not None:
            settings["thinking"] = wanted.thinking
        if wanted.max_output_tokens is not None:
            settings["max_tokens"] = wanted.max_output_tokens
        if request.purpose is ModelCallPurpose.TURN:
            # An agent sends the same beginning again with each turn.
            settings["cache"] = True
        return settings

    def _reason(self, answer: ModelResponse) -> _FinishReason:
        """Return why the answer ended, or raise if it did not end."""
        if answer.state != "complete" or answer.finish_reason == "error" or self._is_truncated(answer):
            raise ModelUnavailable(f"the answer of `{self._name}` ended before it was finished")
        if answer.finish_reason == "content_filter":
            return "refused"
        if answer.finish_reason == "length":
            return "length"
        return "tool_calls" if any(isinstance(part, ToolCallPart) for part in answer.parts) else "stop"

    def _is_truncated(self, answer: ModelResponse) -> bool:
        # pydantic-ai takes a stream that just ends for one that stopped; a provider that is done says why.
        unnamed = answer.finish_reason in (None, "stop") and "finish_reason" not in _details(answer)
        return unnamed and self._model.provider is not None

    def _usage(self, used: RequestUsage) -> Usage:
        # Every call has input: where none was counted, usage was not told, or was nonsense, and is not free.
        sensible = 0 < used.input_tokens <= MAX_TOKENS_PER_CALL and used.output_tokens <= MAX_TOKENS_PER_CALL
        told = sensible and not used.unmeasured_requests
        asked = _clamp_tokens(used.input_tokens)
        return Usage(
            input_tokens=asked,
            output_tokens=_clamp_tokens(used.output_tokens),
            cached_input_tokens=max(0, min(used.cache_read_tokens, asked)),
            cost_usd=self._prices.cost(used) if told and self._prices is not None else None,
        )


def _clamp_tokens(tokens: int) -> int:
    return max(0, min(tokens, MAX_TOKENS_PER_CALL))


def _details(answer: ModelResponse) -> dict[str, object]:
    return answer.provider_details or {}


def _fixed_settings(provided: Provided, timeout: float) -> ModelSettings:
    """Return what is said with each call, of what the model understands."""
    settings = ModelSettings()
    if "timeout" not in provided.unsupported_settings:
        settings["timeout"] = timeout
    # Where the client itself does not retry, nothing needs to be said, which is cheaper.
    retries = getattr(getattr(provided.provider, "client", None), "max_retries", None)
    if retries != 0 and "max_retries" not in provided.unsupported_settings:
        settings["max_retries"] = 0
    return settings
