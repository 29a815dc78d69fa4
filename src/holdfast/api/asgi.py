"""ASGI type aliases shared by the middleware, the streams, and the server protocols."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

AsgiScope: TypeAlias = Any
"""A mapping; `Any` because the framework declares incompatible types for it."""
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
