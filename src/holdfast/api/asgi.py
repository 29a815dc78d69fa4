"""ASGI type aliases and headers shared by the middleware, the streams, and the server protocols."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

AsgiScope: TypeAlias = Any
"""A mapping; `Any` because the framework declares incompatible types for it."""
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]

BROWSER_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of every response without its own: no browser keeps it, and none shows it as a page that can do anything."""
