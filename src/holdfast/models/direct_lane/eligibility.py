"""Which models may take the direct lane, and why others may not. In doubt a model may not."""

from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from pydantic_ai.models import Model as PydanticModel

from holdfast.models.direct_lane.openai_chat import REASONING_FIELDS, ChatProfile
from holdfast.models.direct_lane.transport import environment_proxy, is_installed

DEFAULT_THINKING_TAGS: Final = ("<think>", "</think>")
CLIENT_CLASSES: Final = {
    "OpenAIChatModel": ("openai", "AsyncOpenAI"),
    "OpenAIResponsesModel": ("openai", "AsyncOpenAI"),
    "AnthropicModel": ("anthropic", "AsyncAnthropic"),
}
"""The classes of models that may take the lane, and the package and class of their clients."""
_LIBRARY_HOOKS: Final = ("ConnectPoolTimeoutCap",)
"""Request hooks that pydantic-ai adds to the HTTP clients it makes; they only shorten timeouts."""


def reason_against(model: PydanticModel) -> str | None:
    """Return why a model may not take the lane; null if it may."""
    if not is_installed():
        return "the package `aiohttp` is not installed"
    client: Any = getattr(model.provider, "client", None)
    expected = CLIENT_CLASSES.get(type(model).__name__)
    if expected is None or type(model).__module__.partition(".")[0] != "pydantic_ai":
        return f"`{type(model).__name__}` has its own way to call its provider"
    if (type(client).__module__.partition(".")[0], type(client).__name__) != expected:
        return f"`{type(client).__name__}` has its own way to send requests"
    return _reason_in_client(model, client) or _reason_in_model(model) or _reason_in_url(str(client.base_url))


def _reason_in_client(model: Any, client: Any) -> str | None:
    changing = ("_api_key_provider", "workload_identity", "_provider_runtime", "credentials", "custom_auth")
    if any(getattr(client, name, None) is not None for name in changing):
        return "its key may change while the server runs"
    if getattr(client, "_middleware", None):
        return "its client has middleware"
    http = getattr(model.provider, "_own_http_client", None)
    if type(http) is not httpx2.AsyncClient or client._client is not http:
        return "its HTTP client is not the usual one"
    hooks = [*http.event_hooks.get("response", ()), *http.event_hooks.get("request", ())]
    if http.auth is not None or http.cookies or any(type(hook).__name__ not in _LIBRARY_HOOKS for hook in hooks):
        return "its HTTP client changes requests"
    return None


def _reason_in_model(model: Any) -> str | None:
    if model.settings:
        return "it has settings of its own"
    if type(model).__name__ == "OpenAIChatModel" and chat_profile(model) is None:
        return "its profile describes streams that the lane does not know"
    if model.profile.get("openai_responses_tool_call_ids_are_response_scoped", False):
        return "its call ids are unique only within a response"
    return None


def _reason_in_url(url: str) -> str | None:
    parts = urlsplit(url)
    if parts.username or parts.password:
        return "its URL contains credentials"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "its URL is not one of a server"
    proxy = environment_proxy(url)
    if proxy is not None and urlsplit(proxy).scheme not in ("http", "https"):
        return "its proxy is not an HTTP proxy"
    return None


def chat_profile(model: PydanticModel) -> ChatProfile | None:
    """Return what the profile of a chat model says about its streams; null if it says more than is known."""
    profile: Any = model.profile
    tags, field = profile.get("thinking_tags", DEFAULT_THINKING_TAGS), profile.get("openai_chat_thinking_field")
    ignore = profile.get("ignore_streamed_leading_whitespace", False)
    if profile.get("openai_chat_streaming_requires_finish_reason", False):
        return None
    if type(ignore) is not bool or (field is not None and field not in REASONING_FIELDS):
        return None
    if not (isinstance(tags, tuple) and len(tags) == 2 and all(isinstance(tag, str) and tag for tag in tags)):
        return None
    fields = REASONING_FIELDS if field is None else (field, *(each for each in REASONING_FIELDS if each != field))
    return ChatProfile(thinking_tags=tags, reasoning_fields=fields, ignore_leading_whitespace=ignore)
