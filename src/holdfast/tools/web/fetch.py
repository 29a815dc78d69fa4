"""Fetching a page as text: redirects, character sets, and HTML as Markdown.

Every redirect is checked against the rules again. A large page is converted in a separate process that can be killed,
because the library holds the GIL and a hostile page can take minutes.
"""

import asyncio
import sys
from collections.abc import Callable
from email.message import Message
from html import unescape
from pathlib import Path
from typing import Final

import msgspec

from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.linear_regex import LinearRegex
from holdfast.domain.packages import has_extra, install_command
from holdfast.domain.permission import PermissionAction
from holdfast.domain.web_url import WebUrl, join_web_url
from holdfast.ports.sandbox import Command, Processes
from holdfast.tools.files.text import BYTE_ORDER_MARKS
from holdfast.tools.thread_pool import run_in_thread
from holdfast.tools.web import converter
from holdfast.tools.web.client import WebClient, WebRequest, WebResponse

MAX_BODY_BYTES: Final = 5 * 1024 * 1024
"""Bytes of a decompressed response."""
MAX_REDIRECTS: Final = 5
FETCH_TIMEOUT_SECONDS: Final = 40.0
"""Seconds for a page with all its redirects."""
FETCH_HEADERS: Final = {
    "User-Agent": "Holdfast (an agent that reads the web for a person)",
    "Accept": "text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, application/xml;q=0.7, */*;q=0.1",
}


async def fetch_page(
    http: WebClient, url: WebUrl, *, decide: Callable[[WebUrl], PermissionAction]
) -> tuple[WebUrl, WebResponse]:
    """Return the response for a URL and its final URL; `decide` returns the permission of a redirect."""
    first_host = url.host
    try:
        async with asyncio.timeout(FETCH_TIMEOUT_SECONDS):
            for _ in range(MAX_REDIRECTS + 1):
                response = await http.request(WebRequest(url=url, headers=FETCH_HEADERS, max_bytes=MAX_BODY_BYTES))
                if not response.is_redirect:
                    return url, response
                target = join_web_url(url, response.headers["location"])
                _check_redirect(url, target, decide(target))
                url = target
    except TimeoutError as exc:
        raise Unavailable(f"`{first_host}` did not respond within {FETCH_TIMEOUT_SECONDS:g} seconds") from exc
    raise Invalid(f"there are more than {MAX_REDIRECTS} redirects", field="url")


def _check_redirect(source: WebUrl, target: WebUrl, permission: PermissionAction) -> None:
    """Raise `Invalid` if a redirect may not be followed: approval of one host is not approval of another."""
    if permission is PermissionAction.DENY:
        raise Invalid(f"it redirects to `{target.host}`, which the rules deny", field="url")
    if source.scheme == "https" and target.scheme == "http":
        raise Invalid(f"it redirects to `{target}`, without encryption: fetch that if you want it", field="url")
    if permission is PermissionAction.ASK and source.host.removeprefix("www.") != target.host.removeprefix("www."):
        raise Invalid(f"it redirects to another host, `{target}`: fetch that if you want it", field="url")


MAX_INLINE_CHARS: Final = 8 * 1024
"""Characters of a page that is converted in this process, since that is faster than to start another one."""
CONVERT_TIMEOUT_SECONDS: Final = 20.0
MAX_MARKDOWN_BYTES: Final = 32 * 1024 * 1024


class MarkdownConverter:
    """Converts pages to Markdown."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def markdown(self, page: str, *, base: str) -> str:
        """Return a page as Markdown with absolute links; raise `Invalid` if it cannot be converted."""
        if not has_extra("web"):
            remedy = f"read it `raw`, or let the operator run `{install_command('web')}`"
            raise Invalid(f"HTML cannot be converted to Markdown without the package `html-to-markdown`: {remedy}")
        if len(page) <= MAX_INLINE_CHARS:
            try:
                return await run_in_thread(lambda _: converter.html_to_markdown_text(page, base))
            except ValueError as exc:
                raise Invalid(f"`{base}` cannot be converted to Markdown: read it `raw`", field="url") from exc
        ended = await self._processes.run(
            Command(
                argv=[sys.executable, "-I", converter.__file__],
                folder=Path("/"),
                input=f"{base}\n{page}".encode(),
                timeout=CONVERT_TIMEOUT_SECONDS,
                output_limit=MAX_MARKDOWN_BYTES,
            )
        )
        if ended.exit_code != 0 or ended.dropped_bytes:
            reason = "it takes too long" if ended.timed_out else "it needs too much memory or output"
            raise Invalid(f"`{base}` cannot be converted to Markdown, {reason}: read it `raw`", field="url")
        return ended.output.decode()


_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT_TYPES: Final = frozenset(
    {
        "application/ecmascript",
        "application/javascript",
        "application/json",
        "application/toml",
        "application/x-javascript",
        "application/x-ndjson",
        "application/x-sh",
        "application/x-yaml",
        "application/xml",
        "application/yaml",
    }
)
_HTML_START: Final = LinearRegex(r"(?is)\A\s*(<!--.{0,1000}?-->\s*)?<(!doctype\s+html|html|head|body)\b")
_TITLE: Final = LinearRegex(r"(?i)<title(?:\s[^>]{0,200})?>([^<]{1,500})</title")


class PageText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a response."""

    text: str
    media_type: str
    title: str | None = None


async def extract_text(url: WebUrl, response: WebResponse, pages: MarkdownConverter, *, raw: bool = False) -> PageText:
    """Return the text of a response, HTML as Markdown unless `raw`; raise `Invalid` if it is not text."""
    declared_type, charset = _content_type(response.headers.get("content-type"))
    media_type = declared_type or "text/plain"
    is_text = media_type in _TEXT_TYPES | _HTML_TYPES or media_type.endswith(("+json", "+xml"))
    if not is_text and not media_type.startswith("text/"):
        raise Invalid(f"`{url}` is `{media_type}`, and only text can be read", field="url")
    text = decode_page(response.body, charset=charset)
    if "\x00" in text:
        raise Invalid(f"`{url}` is declared as `{media_type}`, but is not text", field="url")
    if media_type in _HTML_TYPES or declared_type is None and _HTML_START.search(text) is not None:
        title = _TITLE.search(text)
        return PageText(
            text=text if raw else await pages.markdown(text, base=str(url)),
            media_type="text/html",
            title=None if title is None else " ".join(unescape(title[1]).split()) or None,
        )
    return PageText(text=text, media_type=media_type)


def _content_type(header: str | None) -> tuple[str | None, str | None]:
    """Return the media type and the charset of a `Content-Type` header."""
    if not header:
        return None, None
    parsed = Message()
    parsed["content-type"] = header.replace("\r", " ").replace("\n", " ")[:500]
    charset = parsed.get_param("charset")
    return parsed.get_content_type(), charset if isinstance(charset, str) else None


CHARSET_SNIFF_BYTES: Final = 1024
"""Bytes at the beginning of a page that are searched for a declared charset."""
LEGACY_CHARSET: Final = "cp1252"
"""The most likely charset of a page that declares none and is not UTF-8."""

# The codecs of charset labels on the web: https://encoding.spec.whatwg.org/#names-and-labels
_CODECS_BY_LABEL: Final = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "latin1": "cp1252",
    "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252",
    "windows-1252": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "gb18030": "gb18030",
    "big5": "big5hkscs",
    "euc-jp": "euc_jp",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "sjis": "cp932",
    "windows-31j": "cp932",
    "iso-2022-jp": "iso2022_jp",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "koi8-r": "koi8_r",
    "koi8-u": "koi8_u",
    "macintosh": "mac_roman",
    "utf-16": "utf-16-le",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "iso-8859-9": "cp1254",
    **{f"iso-8859-{part}": f"iso8859_{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{f"windows-{page}": f"cp{page}" for page in (874, 1250, 1251, 1253, 1254, 1255, 1256, 1257, 1258)},
}
_CHARSET_PATTERNS: Final = (
    LinearRegex(r"(?i)<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{2,40})"),
    LinearRegex(r"(?i)^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_:.-]{2,40})"),
)


def decode_page(body: bytes, *, charset: str | None = None) -> str:
    """Return the text of a page; `charset` is that of its header. Invalid bytes are replaced."""
    for mark, encoding in BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    labels = [] if charset is None else [charset.strip().lower()]
    start = body[:CHARSET_SNIFF_BYTES].decode("latin-1")
    for pattern in _CHARSET_PATTERNS:
        if match := pattern.search(start):
            label = match[1].lower()
            # The declaration could not have been found in UTF-16.
            labels.append("utf-8" if label.startswith("utf-16") else label)
    for label in labels:
        if label in _CODECS_BY_LABEL:
            return body.decode(_CODECS_BY_LABEL[label], "replace")
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode(LEGACY_CHARSET, "replace")
