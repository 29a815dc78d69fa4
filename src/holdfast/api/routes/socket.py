"""The socket of clients: live events of tasks and sessions, and remote methods."""

from typing import Any, Final

from litestar import WebSocket, websocket
from litestar.di import NamedDependency
from litestar.handlers import WebsocketRouteHandler

from holdfast.api.chat.socket.socket import ClientSocket
from holdfast.api.streams.websocket import checked, deny
from holdfast.control.live.live import LiveControl
from holdfast.domain.errors import HoldfastError


@websocket("/ws", middleware=[checked])
async def client_socket(socket: WebSocket[Any, Any, Any], live: NamedDependency[LiveControl]) -> None:
    """Serve one client: it follows tasks and sessions, and offers methods that agents call."""
    try:
        pulse = await live.pulse()
    except HoldfastError as error:
        await deny(error, socket.scope, socket.send)
    else:
        await ClientSocket(live, pulse, socket.scope, socket.receive, socket.send).serve()


SOCKETS: Final[tuple[WebsocketRouteHandler, ...]] = (client_socket,)
