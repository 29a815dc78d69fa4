"""Which adapter fills which port: the only place that knows."""

from holdfast.bootstrap.store import SystemClock, open_bus, open_store

__all__ = ["SystemClock", "open_bus", "open_store"]
