"""Over TLS the certificate must match the host name, although the connection is to an address."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.tools.builtin.web import web_fetch
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.web.fetch import MarkdownConverter
from tests.support.calls import a_call
from tests.support.certificates import write_certificate
from tests.support.web_server import StubWeb, WebPage, WebServer


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a file with a key and a self-signed certificate of `example.com`."""
    return write_certificate(tmp_path / "certificate.pem", "example.com")


@pytest.fixture
async def site(certificate: Path) -> AsyncIterator[WebServer]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    async with WebServer({"/": WebPage(body=b"secret tea")}, tls=tls) as server:
        yield server


async def test_the_certificate_must_match_the_host_name(
    site: WebServer, certificate: Path, pages: MarkdownConverter
) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate))
    web = StubWeb({"example.com": site, "other.org": site})
    tool = with_standard_middleware(web_fetch(web.http(tls=trusting), pages))
    read = await tool.run(a_call(), {"url": "https://example.com/"})
    assert read.content == "[https://example.com/; text/html]\nsecret tea"
    assert web.dialed == [web.address("example.com")]

    mismatched = await tool.run(a_call(), {"url": "https://other.org/"})
    assert str(mismatched.content).startswith("UNAVAILABLE: `other.org` cannot be read: [ssl: certificate_verify")


async def test_an_untrusted_certificate_is_refused(site: WebServer, pages: MarkdownConverter) -> None:
    tool = with_standard_middleware(web_fetch(StubWeb({"example.com": site}).http(), pages))
    refused = await tool.run(a_call(), {"url": "https://example.com/"})
    assert (refused.failed, site.requests) == (True, [])
    assert "certificate_verify_failed" in str(refused.content)


async def test_a_redirect_from_https_to_http_is_refused(
    site: WebServer, certificate: Path, pages: MarkdownConverter
) -> None:
    site.pages["/down"] = WebPage(status=302, headers={"Location": "http://example.com/"})
    trusting = ssl.create_default_context(cafile=str(certificate))
    tool = with_standard_middleware(web_fetch(StubWeb({"example.com": site}).http(tls=trusting), pages))
    refused = await tool.run(a_call(), {"url": "https://example.com/down"})
    assert refused.content == (
        "INVALID: it redirects to `http://example.com/`, without encryption: fetch that if you want it"
    )
