"""Clients of model providers, built by name or from settings. Their retries are off: ours are durable."""

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.models import infer_model, known_model_names
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from holdfast.domain.errors import Invalid
from holdfast.domain.model_provider import ProviderSettings
from holdfast.models.direct_lane.eligibility import reason_against
from holdfast.models.direct_lane.lane import DirectLane
from holdfast.models.direct_lane.transport import LaneTransport
from holdfast.models.packages import key_variable, provider_key
from holdfast.models.prices import configured_prices, listed_prices
from holdfast.models.provider_model import ProviderModel
from holdfast.models.sdk_requests import hook_requests

_VARIABLE_PATTERN: Final = re.compile(r"`([A-Z][A-Z0-9_]*)`")
_INSTALL_COMMAND: Final = re.compile(r"pip install [^`]+")
_NO_KEY: Final = "api-key-not-set"
"""Some clients require a key even where the server needs none."""


class ProviderClients:
    """Creates models. All models of one provider share its connections."""

    def __init__(self, *, direct_lane_off: Collection[str] = ()) -> None:
        """Create models; those of the providers in `direct_lane_off` never take the direct lane."""
        self._providers: dict[str, Provider[Any]] = {}
        self._direct_lane_off = frozenset(direct_lane_off)
        self._transport = LaneTransport()

    def built_in(self, name: str, *, timeout: float, others: Sequence[str] = ()) -> ProviderModel:
        """Return the model `provider:name` of a provider that pydantic-ai knows.

        Raises `Invalid` for an unknown provider, with the known ones in the message, `others` first; and for one
        whose key or package is missing.
        """
        provider, _, model = name.partition(":")
        try:
            infer_provider_class(provider)
            pydantic_model = infer_model(name, lambda each: self._provider(each, lambda: infer_provider(each)))
        except ValueError as exc:
            names = ", ".join(f"`{known}`" for known in [*others, *known_providers()])
            raise Invalid(f"there is no provider `{provider}`: there are {names} and others", model=name) from exc
        except ImportError as exc:
            command = _INSTALL_COMMAND.search(str(exc))
            remedy = f"run `{command[0]}`" if command else str(exc)
            raise Invalid(f"`{name}` needs a package that is not installed: {remedy}", model=name) from exc
        except UserError as exc:
            variable = _VARIABLE_PATTERN.search(str(exc))
            missing = f"needs the environment variable `{variable[1]}`: set it" if variable else None
            raise Invalid(f"`{name}` {missing or f'cannot be used: {exc}'}", model=name) from exc
        try:
            url = pydantic_model.base_url
        except (AttributeError, UserError):  # not every provider has one
            url = None
        prices = listed_prices(model, provider=pydantic_model.system, url=url)
        return ProviderModel(
            name,
            pydantic_model,
            prices=prices,
            timeout=timeout,
            key=key_variable(provider),
            lane=self._lane(provider, pydantic_model, timeout),
        )

    def custom(self, name: str, settings: ProviderSettings) -> ProviderModel:
        """Return a model of a provider in the settings; raise `Invalid` if its key is missing."""
        provider, _, model = name.partition(":")
        key = provider_key(name, settings)
        pydantic_model: PydanticModel
        if settings.api == "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            client = self._provider(
                provider, lambda: AnthropicProvider(api_key=key or _NO_KEY, base_url=settings.base_url)
            )
            pydantic_model = AnthropicModel(model, provider=client)
        else:
            from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
            from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

            client = self._provider(
                provider, lambda: OpenAICompatibleProvider(provider, base_url=settings.base_url, api_key=key)
            )
            model_class = OpenAIChatModel if settings.api == "openai" else OpenAIResponsesModel
            pydantic_model = model_class(model, provider=client)
        return ProviderModel(
            name,
            pydantic_model,
            prices=configured_prices(settings) or listed_prices(model, url=settings.base_url),
            context_window=settings.context_window,
            timeout=settings.timeout_seconds,
            key=settings.api_key_env,
            lane=self._lane(provider, pydantic_model, settings.timeout_seconds),
        )

    async def aclose(self) -> None:
        """Close all connections."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._transport.aclose)
            while self._providers:
                # Entering a provider takes ownership of its client, and leaving closes it.
                await stack.enter_async_context(self._providers.popitem()[1])

    def _lane(self, provider: str, model: PydanticModel, timeout: float) -> DirectLane | str:
        """Return the lane of a model, or why it has none."""
        hook_requests(model)
        if provider in self._direct_lane_off:
            return "`direct_lane_off` in `settings.json` lists its provider"
        return reason_against(model) or DirectLane(model, self._transport, idle_timeout_seconds=timeout)

    def _provider(self, name: str, create: Callable[[], Provider[Any]]) -> Provider[Any]:
        if name not in self._providers:
            provider = self._providers[name] = create()
            client: Any = getattr(provider, "client", None)
            if hasattr(client, "max_retries"):
                client.max_retries = 0
        return self._providers[name]


def known_providers() -> list[str]:
    """Return the providers of the models that pydantic-ai lists."""
    names = {name.partition(":")[0] for name in known_model_names() if ":" in name}
    return sorted(name for name in names if "/" not in name)
