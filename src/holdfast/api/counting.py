"""What is counted of requests: by the route that answers, never by a path that a client makes up."""

from collections.abc import Iterable
from time import perf_counter
from typing import Final

from holdfast.api.asgi import Scope
from holdfast.metrics.instruments import OTHER_LABEL, Number
from holdfast.metrics.meters import Meters

UNMATCHED: Final = "unmatched"
"""The route of a request that was refused before one was found, or that none answers."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_EVENT_STREAM: Final = b"text/event-stream"


class RequestCounts:
    """One request as it is counted."""

    def __init__(self, meters: Meters, scope: Scope, *, begun: float) -> None:
        self._meters = meters
        self._scope = scope
        self._begun = begun
        self._stream: Number | None = None

    def answered(self, status: int, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Take note that an answer begins; one that is a stream stays open until the request ends."""
        route, method = self._scope.get("path_template") or UNMATCHED, _method(self._scope)
        self._meters.requests.of(route, method, str(status)).add()
        self._meters.request_seconds.of(route, method).observe(perf_counter() - self._begun)
        if status == 101:
            self._open("websocket")
        elif any(name == b"content-type" and value.startswith(_EVENT_STREAM) for name, value in headers):
            self._open("sse")

    def ended(self) -> None:
        """Take note that nothing more is sent."""
        if self._stream is not None:
            self._stream.add(-1)

    def _open(self, transport: str) -> None:
        self._stream = self._meters.streams.of(transport)
        self._stream.add()


def _method(scope: Scope) -> str:
    if scope["type"] == "websocket":
        return "WS"
    method: str = scope["method"]
    return method if method in _METHODS else OTHER_LABEL
