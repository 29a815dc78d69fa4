"""Composition root: the only package that chooses the adapters of the ports."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.bootstrap.store import SystemClock, open_bus, open_store

__all__ = ["SystemClock", "open_bus", "open_store"]


def __getattr__(name: str) -> Any:
    """Import the stores on first use: `holdfast --help` needs none."""
    if name not in __all__:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return getattr(import_module("holdfast.bootstrap.store"), name)
