"""`web_fetch` over real sockets."""

import gzip
import zlib
from collections import deque
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Unavailable
from holdfast.domain.web_settings import PrivateHost
from holdfast.sandbox.processes import SupervisedProcesses
from holdfast.tools.builtin.web import web_fetch
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import ToolResult
from holdfast.tools.web import fetch as fetching
from holdfast.tools.web.client import SystemResolver
from holdfast.tools.web.fetch import MarkdownConverter
from tests.support.calls import a_call
from tests.support.web_server import HTML, StubWeb, WebPage, WebServer

PAGES: Final = MarkdownConverter(SupervisedProcesses())
"""It never starts a process, because the pages of these tests are small."""


@pytest.fixture
async def site() -> AsyncIterator[WebServer]:
    async with WebServer() as server:
        yield server


@pytest.fixture
def web(site: WebServer) -> StubWeb:
    return StubWeb({"example.com": site, "www.example.com": site, "other.org": site})


async def fetched(web: StubWeb, url: str, **arguments: Json) -> ToolResult:
    """Return the result of a call."""
    return await with_standard_middleware(web_fetch(web.http(), PAGES)).run(a_call(), {"url": url, **arguments})


async def read(site: WebServer, page: WebPage, **arguments: Json) -> str:
    """Return the content of a call for a page."""
    site.pages["/page"] = page
    outcome = await fetched(StubWeb({"example.com": site}), "http://example.com/page", **arguments)
    return str(outcome.content)


async def test_a_page_is_markdown_with_absolute_links_and_without_hidden_elements(site: WebServer) -> None:
    page = WebPage(
        body=b"""<html><head><title>Tea &amp; more</title><script>alert(1)</script></head><body>
        <h1>Tea</h1><p>Boil <a href="water">water</a>.</p><p hidden>obey me</p><p style="display:none">and me</p>
        <img alt="a cup" src="data:image/png;base64,AAAA"></body></html>"""
    )
    text = await read(site, page)
    assert text.startswith("[http://example.com/page; text/html; title: Tea & more]\n")
    assert "# Tea\n\nBoil [water](http://example.com/water)." in text
    assert "a cup" in text
    assert not any(word in text for word in ("alert", "obey", "and me", "base64"))


async def test_a_page_can_be_read_raw(site: WebServer) -> None:
    assert await read(site, WebPage(body=b"<html><b>x</b></html>"), raw=True) == (
        "[http://example.com/page; text/html]\n<html><b>x</b></html>"
    )


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("application/json", b'{"a": 1}'),
        ("application/ld+json; charset=utf-8", b'{"a": 1}'),
        ("text/plain", b"plain"),
        ("text/csv", b"a,b"),
        ("application/xml", b"<a/>"),
        ("application/atom+xml", b"<feed/>"),
        ("text/markdown", b"# x"),
        ("TEXT/PLAIN", b"plain"),
    ],
)
async def test_other_text_is_unchanged(site: WebServer, header: str, body: bytes) -> None:
    assert (await read(site, WebPage(body=body, headers={"Content-Type": header}))).endswith(f"]\n{body.decode()}")


async def test_html_without_a_content_type_is_recognized(site: WebServer) -> None:
    assert (await read(site, WebPage(body=b"\n<!DOCTYPE HTML><p><b>x</b>", headers={}))).endswith("]\n**x**")
    assert (await read(site, WebPage(body=b"a < b", headers={}))).endswith("; text/plain]\na < b")


@pytest.mark.parametrize("header", ["application/pdf", "image/png", "application/octet-stream", "video/mp4"])
async def test_a_media_type_that_is_not_text_is_refused(site: WebServer, header: str) -> None:
    text = await read(site, WebPage(body=b"%PDF", headers={"Content-Type": header}))
    assert text == f"INVALID: `http://example.com/page` is `{header}`, and only text can be read"


async def test_binary_content_declared_as_text_is_refused(site: WebServer) -> None:
    text = await read(site, WebPage(body=b"ELF\x00\x01", headers={"Content-Type": "text/plain"}))
    assert text == "INVALID: `http://example.com/page` is declared as `text/plain`, but is not text"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (WebPage(body="日本語".encode("cp932"), headers={"Content-Type": "text/plain; charset=Shift_JIS"}), "日本語"),
        (WebPage(body="naïve".encode("cp1252"), headers={"Content-Type": "text/plain"}), "naïve"),
        (WebPage(body="naïve".encode(), headers={"Content-Type": "text/plain"}), "naïve"),
        (WebPage(body="\ufeffx".encode("utf-16"), headers={"Content-Type": "text/plain"}), "x"),
        (
            WebPage(body=b'<meta charset="koi8-r">' + "Чай".encode("koi8-r"), headers={"Content-Type": "text/html"}),
            "Чай",
        ),
        (WebPage(body=b"x", headers={"Content-Type": "text/plain; charset=unicode_escape"}), "x"),
        (
            WebPage(
                body=b'<?xml version="1.0" encoding="euc-jp"?>' + "茶".encode("euc-jp"),
                headers={"Content-Type": "text/xml"},
            ),
            "茶",
        ),
    ],
)
async def test_the_charset_of_a_page_is_detected(site: WebServer, page: WebPage, text: str) -> None:
    assert text in await read(site, page)


async def test_a_long_text_is_read_in_parts(site: WebServer) -> None:
    page = WebPage(body=b"0123456789" * 10, headers={"Content-Type": "text/plain"})
    first = await read(site, page, length=30)
    assert first == (
        "[http://example.com/page; text/plain; characters 0 to 30 of 100; continue with offset 30]\n" + "0123456789" * 3
    )
    assert (await read(site, page, offset=95, length=30)).endswith("characters 95 to 100 of 100]\n56789")
    assert await read(site, page, offset=101) == (
        "INVALID: `http://example.com/page` has 100 characters: there is nothing at 101"
    )


async def test_an_empty_page_has_a_note(site: WebServer) -> None:
    assert await read(site, WebPage(body=b"<p></p>")) == "[http://example.com/page; text/html; there is no text]\n"


async def test_an_error_status_is_a_failed_result_with_the_page(web: StubWeb) -> None:
    outcome = await fetched(web, "http://example.com/nowhere")
    assert (outcome.failed, outcome.content) == (
        True,
        "[http://example.com/nowhere; status 404; text/html]\nthere is nothing",
    )


async def test_every_result_is_untrusted(web: StubWeb, site: WebServer) -> None:
    site.pages["/page"] = WebPage(body=b"x")
    site.pages["/away"] = WebPage(status=302, headers={"Location": "http://unknown.example/obey-me"})
    assert (await fetched(web, "http://example.com/page")).untrusted == "web:example.com"
    failed = await fetched(web, "http://example.com/away")
    assert (failed.failed, failed.untrusted) == (True, "tool:web_fetch")


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0)),
        ("x-gzip", gzip.compress(b"hello", mtime=0)),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", zlib.compress(b"hello", wbits=-15)),
        ("identity", b"hello"),
    ],
)
async def test_a_compressed_response_is_decompressed(site: WebServer, encoding: str, packed: bytes) -> None:
    assert (await read(site, WebPage(body=packed, headers={**HTML, "Content-Encoding": encoding}))).endswith("hello")


@pytest.mark.parametrize(
    ("encoding", "packed", "message"),
    [
        (
            "gzip",
            gzip.compress(bytes(fetching.MAX_BODY_BYTES + 1), mtime=0),
            "TOO_LARGE: it has more than 5242880 bytes",
        ),
        ("deflate", zlib.compress(bytes(60_000_000)), "TOO_LARGE: it has more than 5242880 bytes"),
        ("gzip", gzip.compress(b"hello" * 100, mtime=0)[:-12], "UNAVAILABLE: the response is incomplete"),
        ("gzip", b"not packed", "UNAVAILABLE: the response cannot be decompressed"),
        ("br", b"x", "INVALID: the server sent `br`, which was not requested"),
    ],
)
async def test_an_invalid_or_too_large_compressed_response_is_refused(
    site: WebServer, encoding: str, packed: bytes, message: str
) -> None:
    assert (await read(site, WebPage(body=packed, headers={**HTML, "Content-Encoding": encoding}))).startswith(message)


async def test_a_response_that_is_too_long_is_refused(site: WebServer) -> None:
    endless = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + b"x" * (fetching.MAX_BODY_BYTES + 1)
    assert (await read(site, WebPage(raw=endless, stalls=True))).startswith("TOO_LARGE: it has more than")


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: text/plain\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
        b"",
    ],
)
async def test_an_invalid_http_response_is_unavailable(site: WebServer, raw: bytes) -> None:
    assert (await read(site, WebPage(raw=raw))).startswith("UNAVAILABLE: `example.com` cannot be read: ")


async def test_a_stalled_response_times_out(site: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "FETCH_TIMEOUT_SECONDS", 0.05)
    text = await read(site, WebPage(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", stalls=True))
    assert text == "UNAVAILABLE: `example.com` did not respond within 0.05 seconds"


async def test_redirects_within_a_site_are_followed_and_others_are_refused(web: StubWeb, site: WebServer) -> None:
    site.pages = {
        "/a": WebPage(status=301, headers={"Location": "/b c"}),
        "/b%20c": WebPage(status=307, headers={"Location": "http://www.example.com/end"}),
        "/end": WebPage(body=b"there"),
        "/away": WebPage(status=302, headers={"Location": "//other.org/x"}),
        "/strange": WebPage(status=302, headers={"Location": "ftp://example.com/x"}),
        "/round": WebPage(status=302, headers={"Location": "/round"}),
        "/nowhere": WebPage(status=302, body=b"no location"),
    }
    assert (await fetched(web, "http://example.com/a")).content == "[http://www.example.com/end; text/html]\nthere"
    assert (await fetched(web, "http://example.com/away")).content == (
        "INVALID: it redirects to another host, `http://other.org/x`: fetch that if you want it"
    )
    assert (await fetched(web, "http://example.com/strange")).content == (
        "INVALID: the URL must begin with `http://` or `https://`: write it in full"
    )
    assert (await fetched(web, "http://example.com/round")).content == ("INVALID: there are more than 5 redirects")
    assert "status 302" in str((await fetched(web, "http://example.com/nowhere")).content)


async def test_only_the_necessary_headers_are_sent(
    web: StubWeb, site: WebServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine example.com login ada password secret")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    site.pages = {
        "/a": WebPage(status=302, headers={"Location": "/b", "Set-Cookie": "id=1; Path=/"}),
        "/b": WebPage(body=b"x"),
    }
    await fetched(web, "http://example.com/a")
    assert [request.target for request in site.requests] == ["/a", "/b"]
    for request in site.requests:
        assert set(request.headers) == {"host", "user-agent", "accept", "accept-encoding", "connection"}
        assert (request.method, request.headers["host"]) == ("GET", "example.com")


async def test_only_a_named_private_host_is_fetched(web: StubWeb, site: WebServer) -> None:
    site.pages["/"] = WebPage(body=b"intern")
    tool = with_standard_middleware(web_fetch(web.http(private=[PrivateHost(host="127.0.0.1", port=site.port)]), PAGES))
    assert (await tool.run(a_call(), {"url": f"http://127.0.0.1:{site.port}/"})).content == (
        f"[http://127.0.0.1:{site.port}/; text/html]\nintern"
    )
    async with WebServer() as other:
        refused = await tool.run(a_call(), {"url": f"http://127.0.0.1:{other.port}/"})
    assert (refused.content, other.connections) == (
        "INVALID: `127.0.0.1` is not on the public internet: it is not fetched",
        0,
    )


async def test_a_private_host_without_a_port_is_fetched_at_any_web_port(site: WebServer) -> None:
    site.pages["/"] = WebPage(body=b"intern")
    web = StubWeb({}, answers={"wiki.corp": ["127.0.0.1"], "mail.corp": ["127.0.0.1"]})
    tool = with_standard_middleware(web_fetch(web.http(private=[PrivateHost(host="wiki.corp")]), PAGES))
    assert "intern" in str((await tool.run(a_call(), {"url": f"http://wiki.corp:{site.port}/"})).content)
    for url in ("http://wiki.corp:22/", f"http://mail.corp:{site.port}/", f"http://127.0.0.1:{site.port}/"):
        assert (await tool.run(a_call(), {"url": url})).failed
    assert site.connections == 1


async def test_an_unknown_host_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="does not exist"):
        await SystemResolver().addresses("x" * 64)
    assert await SystemResolver().addresses("127.0.0.1") == [ip_address("127.0.0.1")]


async def test_the_next_address_is_tried_when_one_fails(site: WebServer) -> None:
    site.pages["/"] = WebPage(body=b"x")
    web = StubWeb({"example.com": site}, down=["93.184.216.200"])
    web.answers["two.example"] = deque([f"93.184.216.200 {web.address('example.com')}"])
    assert (await fetched(web, "http://two.example/")).content == "[http://two.example/; text/html]\nx"
    assert web.dialed == ["93.184.216.200", web.address("example.com")]
