"""Clients of model providers, built by name or from settings. Client retries are off: ours are durable."""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model as Provided
from pydantic_ai.models import infer_model, known_model_names
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from holdfast.domain.errors import Invalid
from holdfast.domain.model_provider import ProviderSettings
from holdfast.models.prices import configured_prices, listed_prices
from holdfast.models.provider_model import ProviderModel

_VARIABLE_PATTERN: Final = re.compile(r"`([A-Z][A-Z0-9_]*)`")
_KEY_VARIABLES: Final = {
    "azure": "AZURE_OPENAI_API_KEY",
    "azure-responses": "AZURE_OPENAI_API_KEY",
    "bedrock": "AWS_ACCESS_KEY_ID",
    "google-cloud": "GOOGLE_APPLICATION_CREDENTIALS",
    "huggingface": "HF_TOKEN",
    "openai-chat": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
}
"""Where the key of a provider stands that is not in `<PROVIDER>_API_KEY`."""
_NO_KEY: Final = "api-key-not-set"
"""Clients insist on a key even where the server wants none."""


class ProviderClients:
    """Makes models. Those of one provider share its connections, however many are asked for."""

    def __init__(self) -> None:
        self._providers: dict[str, Provider[Any]] = {}

    def built_in(self, name: str, *, timeout: float, others: Sequence[str] = ()) -> ProviderModel:
        """Return the model `provider:name` of a provider that pydantic-ai knows.

        A provider that it does not know is refused (`Invalid`) with those there are, `others` first; and so is one
        that lacks its key or its package.
        """
        provider, _, model = name.partition(":")
        try:
            infer_provider_class(provider)
            provided = infer_model(name, lambda each: self._provider(each, lambda: infer_provider(each)))
        except ValueError as exc:
            names = ", ".join(f"`{known}`" for known in [*others, *known_providers()])
            raise Invalid(f"there is no provider `{provider}`: there are {names} and others", model=name) from exc
        except ImportError as exc:
            raise Invalid(f"`{name}` needs a package that is not installed: {exc}", model=name) from exc
        except UserError as exc:
            raise Invalid(_configuration_error(name, str(exc)), model=name) from exc
        prices = listed_prices(model, provider=provided.system, url=_base_url(provided))
        return ProviderModel(name, provided, prices=prices, timeout=timeout, key=key_variable(provider))

    def custom(self, name: str, settings: ProviderSettings) -> ProviderModel:
        """Return a model at an address that the operator gave; without its key it is refused (`Invalid`)."""
        provider, _, model = name.partition(":")
        key = _read_key(name, settings.api_key_env)
        served = self._provider(provider, lambda: _custom_provider(provider, settings, key=key))
        return ProviderModel(
            name,
            _custom_model(model, settings, served),
            prices=configured_prices(settings) or listed_prices(model, url=settings.base_url),
            context_window=settings.context_window,
            timeout=settings.timeout_seconds,
            key=settings.api_key_env,
        )

    async def aclose(self) -> None:
        """Close the connections that are kept for later calls."""
        async with AsyncExitStack() as stack:
            while self._providers:
                # Entering takes over the client, and leaving closes it.
                await stack.enter_async_context(self._providers.popitem()[1])

    def _provider(self, name: str, make: Callable[[], Provider[Any]]) -> Provider[Any]:
        if name not in self._providers:
            self._providers[name] = _without_retries(make())
        return self._providers[name]


def known_providers() -> list[str]:
    """Return the providers of the models that pydantic-ai lists."""
    names = {name.partition(":")[0] for name in known_model_names() if ":" in name}
    return sorted(name for name in names if "/" not in name)


def _custom_provider(name: str, settings: ProviderSettings, *, key: str | None) -> Provider[Any]:
    if settings.api == "anthropic":
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicProvider(api_key=key or _NO_KEY, base_url=settings.base_url)
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    return OpenAICompatibleProvider(name, base_url=settings.base_url, api_key=key)


def _custom_model(model: str, settings: ProviderSettings, provider: Provider[Any]) -> Provided:
    if settings.api == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel

        return AnthropicModel(model, provider=provider)
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel

    return (OpenAIChatModel if settings.api == "openai" else OpenAIResponsesModel)(model, provider=provider)


def _base_url(provided: Provided) -> str | None:
    try:
        return provided.base_url
    except (AttributeError, UserError):
        return None  # some have none


def _without_retries(provider: Provider[Any]) -> Provider[Any]:
    client: Any = getattr(provider, "client", None)
    if hasattr(client, "max_retries"):
        client.max_retries = 0
    return provider


def _read_key(name: str, variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise Invalid(f"`{name}` needs its key in the environment variable `{variable}`: set it", variable=variable)
    return key


def key_variable(provider: str) -> str:
    """Return the environment variable that a built-in provider reads its key from."""
    return _KEY_VARIABLES.get(provider, f"{provider.upper().replace('-', '_')}_API_KEY")


def _configuration_error(name: str, said: str) -> str:
    if variable := _VARIABLE_PATTERN.search(said):
        return f"`{name}` needs the environment variable `{variable[1]}`: set it"
    return f"`{name}` cannot be used: {said}"
