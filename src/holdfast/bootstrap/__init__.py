"""Composition root: the only package that chooses the adapters of the ports."""

from holdfast.bootstrap.store import SystemClock, open_bus, open_store

__all__ = ["SystemClock", "open_bus", "open_store"]
