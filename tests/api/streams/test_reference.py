"""The reference of the streams matches the code."""

import re
from typing import Final

from holdfast.api.auth.middleware import REVOKED_COMMENT
from holdfast.api.openapi import openapi_document
from holdfast.api.routes.streams import ROUTES, SOCKETS
from holdfast.api.streams.sse import CLOSING_FRAMES
from holdfast.api.streams.websocket import MAX_CLIENT_MESSAGE_BYTES, WebSocketCloseCode
from holdfast.api.waiting_connections import DRAIN_CHECK_SECONDS
from holdfast.control.streams.broadcast import WINDOW_BYTES
from holdfast.control.streams.live_streams import StreamLimits
from tests.architecture.markdown import rows
from tests.architecture.project import ROOT

PAGE: Final = ROOT / "docs" / "reference" / "streams.md"
REFERENCE: Final = PAGE.read_text()
CODE: Final = re.compile(r"^\| `(\d+)` \| `(\w+)` \| (.+) \|$", re.MULTILINE)
COMMENT: Final = re.compile(r"^\| `([a-z]+)` \| ", re.MULTILINE)


def test_the_reference_has_the_paths_of_the_streams_and_no_others() -> None:
    streams = {
        f"`{method.upper()} {path}`"
        for path, item in openapi_document(ROUTES)["paths"].items()
        for method, operation in item.items()
        if not operation["operationId"].endswith("_in_space")
    }
    sockets = {f"`GET {min(socket.paths, key=len).replace(':str', '')}`" for socket in SOCKETS}
    assert {address for address, *_ in rows(PAGE, "address")} == streams | sockets


def test_every_close_code_is_in_the_reference() -> None:
    documented = [(int(code), name) for code, name, _ in CODE.findall(REFERENCE)]
    assert documented == [(close.value, close.name) for close in sorted(WebSocketCloseCode)]


def test_every_closing_comment_is_in_the_reference() -> None:
    words = [*CLOSING_FRAMES.values(), REVOKED_COMMENT]
    comments = {each.decode().removeprefix(": ").split(":")[0] for each in words if each[:1] == b":"}
    assert set(COMMENT.findall(REFERENCE)) == comments


def test_the_limits_are_in_the_reference() -> None:
    limits = StreamLimits()
    for limit in (
        f"every {limits.keepalive_seconds:g} s",
        f"after {limits.stall_timeout_seconds:g} to {2 * limits.stall_timeout_seconds:g} s",
        f"after {DRAIN_CHECK_SECONDS:g} s more",
        f"{MAX_CLIENT_MESSAGE_BYTES} bytes",
        f"{limits.max_streams:,};",
        f"{WINDOW_BYTES // 1024} KiB;",
    ):
        assert limit in REFERENCE, limit
