"""Over TLS the certificate must match the host name, although the connection is to an address."""

import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from holdfast.tools.builtin.web import web_fetch
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.web.fetch import MarkdownConverter
from tests.support.calls import a_call
from tests.support.web_server import StubWeb, WebPage, WebServer


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a file with a key and a self-signed certificate of `example.com`."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("example.com")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "certificate.pem"
    path.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + built.public_bytes(Encoding.PEM)
    )
    return path


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
