"""The shelf: files from memory, with the right headers, in front of the API."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from holdfast.console.shelf import CONTENT_SECURITY_POLICY, ConsoleShelf

SCRIPT = b"console.log(1);" * 200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder like the one that the build makes."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_bytes(b"<!doctype html><title>Holdfast</title>")
    (tmp_path / "assets/app-1a2b.js").write_bytes(SCRIPT)
    (tmp_path / "assets/app-1a2b.js.gz").write_bytes(gzip.compress(SCRIPT, mtime=0))
    (tmp_path / "assets/app-1a2b.js.br").write_bytes(b"brotli")
    return tmp_path


async def call(folder: Path, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Send a request to a shelf in front of an app that answers 418."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": []})
        await send({"type": "http.response.body", "body": b"the app"})

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": pairs}
    await ConsoleShelf(app, folder=folder)(scope, None, send)
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, sent[1]["body"]


async def test_every_screen_is_the_index_with_a_strict_policy(folder: Path) -> None:
    for path in ("/console", "/console/", "/console/t/thr_1", "/console/inbox", "/console/../etc/passwd"):
        status, headers, body = await call(folder, path)
        assert (status, body[:15], headers["content-security-policy"]) == (
            200,
            b"<!doctype html>",
            CONTENT_SECURITY_POLICY,
        )
        assert (headers["cache-control"], headers["referrer-policy"]) == ("no-cache", "no-referrer")
        assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    assert "'unsafe" not in CONTENT_SECURITY_POLICY
    assert "http" not in CONTENT_SECURITY_POLICY


async def test_an_index_that_has_not_changed_is_not_sent_again(folder: Path) -> None:
    _, headers, _ = await call(folder, "/console")
    assert (await call(folder, "/console", if_none_match=headers["etag"]))[0] == 304
    (folder / "index.html").write_bytes(b"<!doctype html>new")
    assert (await call(folder, "/console", if_none_match=headers["etag"]))[0] == 200


@pytest.mark.parametrize(
    ("accepted", "encoding", "body"),
    [
        ("", None, SCRIPT),
        ("gzip, deflate", "gzip", gzip.compress(SCRIPT, mtime=0)),
        ("gzip, br;q=0.9", "br", b"brotli"),
        ("br;q=0, gzip", "gzip", gzip.compress(SCRIPT, mtime=0)),
        ("zstd", None, SCRIPT),
    ],
)
async def test_a_file_is_sent_in_an_encoding_that_the_browser_accepts(
    folder: Path, accepted: str, encoding: str | None, body: bytes
) -> None:
    status, headers, sent = await call(folder, "/console/assets/app-1a2b.js", accept_encoding=accepted)
    assert (status, headers.get("content-encoding"), headers["vary"]) == (200, encoding, "Accept-Encoding")
    assert (gzip.decompress(sent) if encoding == "gzip" else sent) == (SCRIPT if encoding == "gzip" else body)
    assert "javascript" in headers["content-type"]
    assert headers["cache-control"] == "public, max-age=31536000, immutable"


async def test_a_missing_asset_is_not_the_index(folder: Path) -> None:
    status, headers, _ = await call(folder, "/console/assets/app-old.js")
    assert (status, headers["content-type"]) == (404, "text/plain")


async def test_a_browser_is_led_from_the_root_to_the_console(folder: Path) -> None:
    status, headers, _ = await call(folder, "/", accept="text/html,application/xhtml+xml")
    assert (status, headers["location"]) == (307, "/console")
    assert (await call(folder, "/", accept="application/json"))[0] == 418
    assert (await call(folder, "/"))[0] == 418


async def test_every_other_request_reaches_the_app(folder: Path) -> None:
    for method, path in (("GET", "/api/threads"), ("GET", "/consoles"), ("POST", "/console"), ("DELETE", "/")):
        assert (await call(folder, path, method))[0] == 418


async def test_without_a_build_the_page_says_what_to_do(tmp_path: Path) -> None:
    status, headers, body = await call(tmp_path, "/console/t/x", accept_encoding="br")
    assert (status, headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert b"make console" in body and b"Node 20" in body
