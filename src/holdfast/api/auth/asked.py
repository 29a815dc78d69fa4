"""The use cases of who asks, at hand while a request is answered."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from holdfast.control.control import Control

_asked: Final[ContextVar[Control]] = ContextVar("holdfast_asked")


def ask(control: Control) -> None:
    """Let the rest of this request be answered by these use cases."""
    _asked.set(control)


def asked(name: str) -> Callable[[], Any]:
    """Return what gives a route the use cases of a name, those of who asks."""
    return lambda: getattr(_asked.get(), name)
