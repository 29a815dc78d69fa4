"""Packages and keys that model providers need, checked without importing anything heavy."""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.domain.errors import Invalid
from holdfast.domain.model_provider import Providers, ProviderSettings
from holdfast.domain.packages import install_command, is_installed

_LIBRARY: Final = "pydantic_ai"
"""Module that every provider needs; the extras `openai` and `anthropic` install it."""
_OPENAI_PROVIDERS: Final = frozenset(
    (
        *("alibaba", "azure", "azure-responses", "cerebras", "crusoe", "deepseek", "fireworks", "github"),
        *("github-copilot", "heroku", "litellm", "meta", "moonshotai", "nebius", "ollama", "openai", "openai-chat"),
        *("openai-chatgpt", "openai-codex", "openai-decisions", "openai-responses", "openrouter", "ovhcloud"),
        *("sambanova", "snowflake", "together", "vercel", "vllm", "zai"),
    )
)
"""Built-in providers whose API is like that of OpenAI."""
_OTHER_PROVIDERS: Final[Mapping[str, tuple[str, str]]] = {
    "bedrock": ("boto3", "bedrock"),
    "cohere": ("cohere", "cohere"),
    "google": ("google.genai", "google"),
    "google-cloud": ("google.genai", "google"),
    "groq": ("groq", "groq"),
    "huggingface": ("huggingface_hub", "huggingface"),
    "mistral": ("mistralai", "mistral"),
    "xai": ("xai_sdk", "xai"),
}
"""The module and the extra of pydantic-ai that other built-in providers need."""
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


def listed_providers() -> list[str]:
    """Return the built-in providers whose packages are known here."""
    return sorted({"anthropic", *_OPENAI_PROVIDERS, *_OTHER_PROVIDERS})


def key_variable(provider: str) -> str:
    """Return the environment variable that a built-in provider reads its key from."""
    return _KEY_VARIABLES.get(provider, f"{provider.upper().replace('-', '_')}_API_KEY")


def missing_package(provider: str, settings: ProviderSettings | None) -> tuple[str, str] | None:
    """Return the package that a provider lacks, with the command that installs it; null if it is there or unknown."""
    if settings is not None:
        module = "anthropic" if settings.api == "anthropic" else "openai"
    elif provider in _OTHER_PROVIDERS:
        module, extra = _OTHER_PROVIDERS[provider]
        missing = [each for each in (module, _LIBRARY) if not is_installed(each)]
        return (missing[0], f"pip install 'pydantic-ai-slim[{extra}]'") if missing else None
    elif provider in _OPENAI_PROVIDERS:
        module = "openai"
    elif provider == "anthropic":
        module = "anthropic"
    else:
        return None if is_installed(_LIBRARY) else (_LIBRARY, install_command("openai"))
    missing = [each for each in (module, _LIBRARY) if not is_installed(each)]
    return (missing[0], install_command(module)) if missing else None


def check_package(model: str, providers: Providers) -> None:
    """Raise `Invalid` with the command to run if the package of a model's provider is not installed."""
    provider = model.partition(":")[0]
    missing = missing_package(provider, providers.get(provider))
    if missing is not None:
        package, command = missing
        remedy = f"run `{command}`, then restart the server"
        raise Invalid(f"`{model}` needs the package `{package}`, which is not installed: {remedy}", model=model)


def provider_key(model: str, settings: ProviderSettings) -> str | None:
    """Return the key of a provider in the settings, null if it needs none; raise `Invalid` if it is not set."""
    variable = settings.api_key_env
    key = None if variable is None else os.environ.get(variable)
    if variable is not None and not key:
        remedy = "set it for the server, then restart it"
        raise Invalid(f"`{model}` needs its key in the environment variable `{variable}`: {remedy}", variable=variable)
    return key


def check_agent_packages(models: Sequence[str], providers: Providers) -> None:
    """Raise `Invalid` if an agent cannot use one of its models for lack of a package.

    A model whose key is missing is not checked: its agent is not in use yet.
    """
    for model in models:
        provider = model.partition(":")[0]
        settings = providers.get(provider)
        variable = key_variable(provider) if settings is None else settings.api_key_env
        if variable is None or os.environ.get(variable):
            check_package(model, providers)
