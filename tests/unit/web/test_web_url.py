"""A URL is parsed in exactly one way, or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.domain.web_url import MAX_URL_CHARS, check_web_port, join_web_url, parse_web_host, parse_web_url


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTPS://EXAMPLE.com.:443/A?b=C#d", "https://example.com/A?b=C"),
        ("http://example.com:8080/a%20b/ä?q=ü", "http://example.com:8080/a%20b/%C3%A4?q=%C3%BC"),
        ("http://例え.jp/", "http://xn--r8jz45g.jp/"),
        ("http://[2606:4700:0::1111]:80/", "http://[2606:4700::1111]/"),
        ("http://1.2.3.4/x", "http://1.2.3.4/x"),
        ("http://example.com:/", "http://example.com/"),
        ("http://my_host.example/", "http://my_host.example/"),
    ],
)
def test_an_address_has_one_form(text: str, read: str) -> None:
    assert str(parse_web_url(text)) == read
    assert parse_web_url(read) == parse_web_url(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("example.com", "the URL must begin with `http://` or `https://`: write it in full"),
        ("ftp://example.com/", "the URL must begin with `http://` or `https://`: write it in full"),
        ("http:///x", "the URL must begin with `http://` or `https://`: write it in full"),
        ("http://a b/", "a URL has no spaces, control characters or backslashes: encode them"),
        ("http://a\\b/", "a URL has no spaces, control characters or backslashes: encode them"),
        ("http://ada:x@example.com/", "the URL may not contain a user or password: remove the part before the `@`"),
        ("http://127.1/", "`127.1` is not an IP address: write four decimal numbers, or a name"),
        ("http://0x7f.0.0.1/", "`0x7f.0.0.1` is not an IP address: write four decimal numbers, or a name"),
        ("http://a..b/", "`a..b` is not a valid host name"),
        ("http://-a.b/", "`-a.b` is not a valid host name"),
        ("http://%41.b/", "`%41.b` is not a valid host name"),
        ("http://[fe80::1%251]/", "`[fe80::1%251]` is a link-local address with a scope: it may not be fetched from"),
        ("http://example.com:99999/", "the URL cannot be parsed: port out of range 0-65535"),
        (f"http://example.com/{'x' * MAX_URL_CHARS}", "the URL has more than 4096 characters"),
    ],
)
def test_an_ambiguous_url_is_refused(text: str, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_web_url(text)
    assert refused.value.message == why


def test_brackets_are_only_for_ipv6_addresses() -> None:
    with pytest.raises(Invalid, match="is not an IPv6 address"):
        parse_web_host("[::g]")
    with pytest.raises(Invalid):
        parse_web_url("http://[::g]/")


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for attempt in (text, f"http://{text}", f"http://example.com/{text}", f"http://{text}.example.com:{text}/"):
        try:
            found = parse_web_url(attempt)
        except Invalid:
            continue
        assert parse_web_url(str(found)) == found
        assert str(found).isascii()
        assert found.host == parse_web_host(found.host if ":" not in found.host else f"[{found.host}]")


@given(st.text(max_size=60))
def test_any_redirect_target_is_parsed_or_refused(text: str) -> None:
    try:
        found = join_web_url(parse_web_url("http://example.com/a/b?c"), text)
    except Invalid:
        return
    assert parse_web_url(str(found)) == found


@pytest.mark.parametrize("port", [0, 21, 22, 25, 110, 143, 445, 993, 1023, 2049, 6000, 6667, 10080])
def test_ports_of_other_services_are_refused(port: int) -> None:
    with pytest.raises(Invalid, match=f"port {port} is not a web port"):
        check_web_port(parse_web_url(f"http://example.com:{port}/"))


@pytest.mark.parametrize("port", [80, 443, 1024, 3000, 8000, 8080, 8443, 65535])
def test_web_ports_are_accepted(port: int) -> None:
    check_web_port(parse_web_url(f"http://example.com:{port}/"))
