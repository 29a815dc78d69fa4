"""Clients of model providers, built by name or from settings. Their retries are off: ours are durable."""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model as PydanticModel
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
"""Environment variables of keys that are not named `<PROVIDER>_API_KEY`."""
_NO_KEY: Final = "api-key-not-set"
"""Some clients require a key even where the server needs none."""


class ProviderClients:
    """Creates models. All models of one provider share its connections."""

    def __init__(self) -> None:
        self._providers: dict[str, Provider[Any]] = {}

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
            raise Invalid(f"`{name}` needs a package that is not installed: {exc}", model=name) from exc
        except UserError as exc:
            variable = _VARIABLE_PATTERN.search(str(exc))
            missing = f"needs the environment variable `{variable[1]}`: set it" if variable else None
            raise Invalid(f"`{name}` {missing or f'cannot be used: {exc}'}", model=name) from exc
        try:
            url = pydantic_model.base_url
        except (AttributeError, UserError):  # not every provider has one
            url = None
        prices = listed_prices(model, provider=pydantic_model.system, url=url)
        return ProviderModel(name, pydantic_model, prices=prices, timeout=timeout, key=key_variable(provider))

    def custom(self, name: str, settings: ProviderSettings) -> ProviderModel:
        """Return a model of a provider in the settings; raise `Invalid` if its key is missing."""
        provider, _, model = name.partition(":")
        variable = settings.api_key_env
        key = None if variable is None else os.environ.get(variable)
        if variable is not None and not key:
            raise Invalid(f"`{name}` needs its key in the environment variable `{variable}`: set it", variable=variable)
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
            key=variable,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        async with AsyncExitStack() as stack:
            while self._providers:
                # Entering a provider takes ownership of its client, and leaving closes it.
                await stack.enter_async_context(self._providers.popitem()[1])

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


def key_variable(provider: str) -> str:
    """Return the environment variable that a built-in provider reads its key from."""
    return _KEY_VARIABLES.get(provider, f"{provider.upper().replace('-', '_')}_API_KEY")
