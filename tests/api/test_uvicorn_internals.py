"""The internals of uvicorn that `holdfast.api.uvicorn_protocols` overrides and uses.

uvicorn makes no promise about them, so its version is pinned. To upgrade: change the pin in `pyproject.toml` and
`constraints.txt`, run these tests, compare the new protocols with the overrides, and run `tests/api`.
"""

import ast
import asyncio
import inspect
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from holdfast.api import uvicorn_protocols
from holdfast.api.uvicorn_protocols import HttpProtocol, WebSocketProtocol, uvicorn_config
from holdfast.api.waiting_connections import WaitingConnections

PYPROJECT: Final = Path(__file__).parents[2] / "pyproject.toml"
ADVICE: Final = "uvicorn has changed: compare its protocols with `holdfast/api/uvicorn_protocols.py` before you upgrade"

PROTOCOL_INIT: Final = (
    "(self, config: 'Config', server_state: 'ServerState', app_state: 'dict[str, Any]', "
    "_loop: 'asyncio.AbstractEventLoop | None' = None) -> 'None'"
)
HTTP_OVERRIDES: Final = {
    "__init__": PROTOCOL_INIT,
    "connection_made": "(self, transport: 'asyncio.Transport') -> 'None'",
    "connection_lost": "(self, exc: 'Exception | None') -> 'None'",
    "data_received": "(self, data: 'bytes') -> 'None'",
    "on_message_complete": "(self) -> 'None'",
    "on_response_complete": "(self) -> 'None'",
    "on_message_begin": "(self) -> 'None'",
    "on_header": "(self, name: 'bytes', value: 'bytes') -> 'None'",
    "on_headers_complete": "(self) -> 'None'",
    "on_body": "(self, body: 'bytes') -> 'None'",
    "_should_upgrade": "(self) -> 'bool'",
    "_unsupported_upgrade_warning": "(self) -> 'None'",
    "handle_websocket_upgrade": "(self) -> 'None'",
    "shutdown": "(self) -> 'None'",
    "_start_asgi_task": "(self, cycle: 'RequestResponseCycle', app: 'ASGI3Application') -> 'None'",
    "send_400_response": "(self, msg: 'str') -> 'None'",
}
WEBSOCKET_OVERRIDES: Final = {
    "data_received": "(self, data: 'bytes') -> 'None'",
    "handle_events": "(self) -> 'None'",
    "start_keepalive": "(self) -> 'None'",
    "run_asgi": "(self) -> 'None'",
    "shutdown": "(self) -> 'None'",
    "keepalive_timeout": "(self) -> 'None'",
    "handle_parser_exception": "(self) -> 'None'",
    "handle_ping": "(self) -> 'None'",
    "resume_writing": "(self) -> 'None'",
    "handle_cont": "(self, event: 'Frame') -> 'None'",
    "send_receive_event_to_app": "(self) -> 'None'",
}
WEBSOCKET_CALLS: Final = {
    "__init__": PROTOCOL_INIT,
    "connection_made": "(self, transport: 'BaseTransport') -> 'None'",
}
HTTP_ATTRIBUTES: Final = frozenset(
    {
        "app_state",
        "client",
        "config",
        "connections",
        "cycle",
        "flow",
        "loop",
        "parser",
        "pipeline",
        "scope",
        "server_state",
        "transport",
        "url",
    }
)
WEBSOCKET_ATTRIBUTES: Final = frozenset(
    {
        "app",
        "close_sent",
        "close_timeout",
        "close_timer",
        "conn",
        "curr_msg_data_type",
        "disconnected",
        "frames",
        "handshake_complete",
        "loop",
        "queue",
        "read_paused",
        "scope",
        "transport",
        "writable",
    }
)
CYCLE_ATTRIBUTES: Final = frozenset(
    {
        "chunked_encoding",
        "disconnected",
        "expected_content_length",
        "keep_alive",
        "response_complete",
        "response_started",
        "scope",
        "transport",
    }
)
SET_PER_REQUEST: Final = frozenset({"url", "scope"})
"""Attributes that the protocols set only once a request begins."""
CONNECTION_ATTRIBUTES: Final = frozenset({"data_to_send", "events", "max_message_size", "send_close"})
"""Attributes that are used of `WebSocketsSansIOProtocol.conn`, a protocol of the `websockets` package."""


def test_the_installed_uvicorn_is_the_pinned_version() -> None:
    dependencies = tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]
    (pin,) = [each for each in dependencies if each.startswith("uvicorn")]
    assert pin == f"uvicorn=={version('uvicorn')}", ADVICE


@pytest.mark.parametrize(
    ("base", "signatures"),
    [
        (HttpToolsProtocol, HTTP_OVERRIDES),
        (WebSocketsSansIOProtocol, WEBSOCKET_OVERRIDES),
        (WebSocketsSansIOProtocol, WEBSOCKET_CALLS),
        (uvicorn.Server, {"startup": "(self, sockets: 'list[socket.socket] | None' = None) -> 'None'"}),
    ],
)
def test_the_methods_of_uvicorn_have_the_expected_signatures(base: type, signatures: Mapping[str, str]) -> None:
    for name, expected in signatures.items():
        method = getattr(base, name, None)
        assert method is not None, f"`{base.__name__}.{name}` is gone. {ADVICE}"
        assert str(inspect.signature(method)) == expected, f"`{base.__name__}.{name}` has changed. {ADVICE}"


@pytest.mark.parametrize("name", ["run_asgi"])
def test_methods_that_are_awaited_are_coroutines(name: str) -> None:
    assert inspect.iscoroutinefunction(getattr(WebSocketsSansIOProtocol, name)), ADVICE


async def test_the_protocols_of_uvicorn_have_the_attributes_that_are_used() -> None:
    config = uvicorn_config(_app, shutdown_grace_seconds=1)
    config.load()
    http = HttpProtocol(
        config=config, server_state=ServerState(), app_state={}, waiting=WaitingConnections(max_files=8)
    )
    websocket = WebSocketProtocol(config=config, server_state=ServerState(), app_state={})
    _check_attributes(http, HTTP_ATTRIBUTES - SET_PER_REQUEST)
    _check_attributes(websocket, WEBSOCKET_ATTRIBUTES - SET_PER_REQUEST)
    _check_attributes(websocket.conn, CONNECTION_ATTRIBUTES)
    assert isinstance(websocket.queue, asyncio.Queue), ADVICE
    assert isinstance(websocket.writable, asyncio.Event), ADVICE
    assert isinstance(http.connections, set), ADVICE
    assert http.cycle is None, ADVICE
    for base in (HttpToolsProtocol, WebSocketsSansIOProtocol):
        assigned = {node.attr for node in _attributes_of(inspect.getsource(base), "self", ast.Store)}
        assert set(SET_PER_REQUEST & (HTTP_ATTRIBUTES if base is HttpToolsProtocol else {"scope"})) <= assigned, ADVICE


def test_a_request_cycle_of_uvicorn_has_the_attributes_that_are_used() -> None:
    assigned = {node.attr for node in _attributes_of(inspect.getsource(RequestResponseCycle), "self", ast.Store)}
    assert assigned >= CYCLE_ATTRIBUTES, f"{sorted(CYCLE_ATTRIBUTES - assigned)} are gone. {ADVICE}"


@pytest.mark.parametrize(
    ("protocol", "base", "overrides", "attributes"),
    [
        (HttpProtocol, HttpToolsProtocol, HTTP_OVERRIDES, HTTP_ATTRIBUTES),
        (WebSocketProtocol, WebSocketsSansIOProtocol, WEBSOCKET_OVERRIDES, WEBSOCKET_ATTRIBUTES),
    ],
)
def test_these_lists_name_all_that_the_protocols_override_and_use(
    protocol: type, base: type, overrides: Mapping[str, str], attributes: frozenset[str]
) -> None:
    own = {name for name, value in vars(protocol).items() if callable(value)}
    assert own & set(dir(base)) == set(overrides)
    source = inspect.getsource(protocol)
    own |= {
        "_in_head",
        "_in_request",
        "_head_bytes",
        "_header_lines",
        "_phase",
        "_waiting",
        "_frame_count",
        "_held",
        "address",
    }
    assert {node.attr for node in _attributes_of(source, "self")} - own == attributes


def test_these_lists_name_all_that_is_used_of_a_request_cycle() -> None:
    source = inspect.getsource(uvicorn_protocols)
    used = {node.attr for name in ("cycle", "self.cycle", "self._cycle") for node in _attributes_of(source, name)}
    assert used == CYCLE_ATTRIBUTES


async def _app(scope: Any, receive: Any, send: Any) -> None:
    """Do nothing."""


def _check_attributes(protocol: object, names: frozenset[str]) -> None:
    missing = sorted(name for name in names if not hasattr(protocol, name))
    assert not missing, f"`{type(protocol).__name__}` has no {missing}. {ADVICE}"


def _attributes_of(source: str, owner: str, context: type[ast.expr_context] | None = None) -> Iterator[ast.Attribute]:
    """Yield each use of an attribute of the expression `owner`."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != owner:
            continue
        if context is None or isinstance(node.ctx, context):
            yield node
