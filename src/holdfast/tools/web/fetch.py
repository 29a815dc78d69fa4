"""Fetching a page as text: redirects, character sets, and HTML as Markdown.

Every redirect is checked against the rules again. A large page is converted by a separate process that can be killed,
because the library holds the GIL and a hostile page can take minutes.
"""

import asyncio
import codecs
import re
import sys
from collections.abc import Callable, Iterator
from email.message import Message
from html import unescape
from pathlib import Path
from typing import Final

import msgspec

from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.permission import PermissionAction
from holdfast.domain.web_url import WebUrl, join_web_url
from holdfast.ports.sandbox import Command, Processes
from holdfast.tools.thread_pool import run_in_thread
from holdfast.tools.web import converter
from holdfast.tools.web.client import WebClient, WebRequest, WebResponse

MAX_BODY_BYTES: Final = 5 * 1024 * 1024
"""Bytes, once they are unpacked."""
MAX_REDIRECTS: Final = 5
FETCH_TIMEOUT_SECONDS: Final = 40.0
"""For all of it."""
FETCH_HEADERS: Final = {
    "User-Agent": "Holdfast (an agent that reads the web for a person)",
    "Accept": "text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, application/xml;q=0.7, */*;q=0.1",
}


async def fetch_page(
    http: WebClient, url: WebUrl, *, decide: Callable[[WebUrl], PermissionAction]
) -> tuple[WebUrl, WebResponse]:
    """Return what is at an address, and where it was in the end; `decide` says what the rules make of a redirect."""
    try:
        async with asyncio.timeout(FETCH_TIMEOUT_SECONDS):
            return await _follow_redirects(http, url, decide)
    except TimeoutError as exc:
        raise Unavailable(f"`{url.host}` did not answer within {FETCH_TIMEOUT_SECONDS:g} seconds") from exc


async def _follow_redirects(
    http: WebClient, url: WebUrl, decide: Callable[[WebUrl], PermissionAction]
) -> tuple[WebUrl, WebResponse]:
    for _ in range(MAX_REDIRECTS + 1):
        answer = await http.request(WebRequest(url=url, headers=FETCH_HEADERS, max_bytes=MAX_BODY_BYTES))
        if not answer.is_redirect:
            return url, answer
        there = join_web_url(url, answer.headers["location"])
        _check_redirect(url, there, decide(there))
        url = there
    raise Invalid(f"it leads on and on: after {MAX_REDIRECTS} redirects there is another one", field="url")


def _check_redirect(here: WebUrl, there: WebUrl, verdict: PermissionAction) -> None:
    """Raise unless it may be followed: what a person allowed for one host is not allowed for another."""
    if verdict is PermissionAction.DENY:
        raise Invalid(f"it leads to `{there.host}`, which the rules deny", field="url")
    if here.scheme == "https" and there.scheme == "http":
        raise Invalid(f"it leads on without encryption, to `{there}`: fetch that if you want it", field="url")
    if verdict is PermissionAction.ASK and _site(here) != _site(there):
        raise Invalid(f"it leads to another host, to `{there}`: fetch that if you want it", field="url")


def _site(url: WebUrl) -> str:
    return url.host.removeprefix("www.")


MAX_INLINE_CHARS: Final = 8 * 1024
"""Characters that take less time, whatever they are, than to start a process."""
CONVERT_TIMEOUT_SECONDS: Final = 20.0
MAX_MARKDOWN_BYTES: Final = 32 * 1024 * 1024
"""Bytes that come of a page."""


class MarkdownConverter:
    """Turns pages into Markdown."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def markdown(self, page: str, *, base: str) -> str:
        """Return a page as Markdown, with whole addresses; raise `Invalid` if it cannot be read."""
        if len(page) <= MAX_INLINE_CHARS:
            return await self._convert_inline(page, base)
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
            why = "it takes too long" if ended.timed_out else "it takes too much"
            raise Invalid(f"`{base}` cannot be turned into Markdown, {why}: read it `raw`", field="url")
        return ended.output.decode()

    async def _convert_inline(self, page: str, base: str) -> str:
        try:
            return await run_in_thread(lambda _: converter.html_to_markdown_text(page, base))
        except ValueError as exc:
            raise Invalid(f"`{base}` cannot be turned into Markdown: read it `raw`", field="url") from exc


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
_HTML_START: Final = re.compile(
    r"\s*(<!--.{0,1000}?-->\s*)?<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)

_TITLE: Final = re.compile(r"<title(?:\s[^>]{0,200})?>([^<]{1,500})</title", re.IGNORECASE)


class PageText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of an answer."""

    text: str
    media_type: str
    title: str | None = None


async def extract_text(url: WebUrl, answer: WebResponse, pages: MarkdownConverter, *, raw: bool = False) -> PageText:
    """Return what an answer says; raise `Invalid` if it is no text. A page is Markdown unless it is wanted `raw`."""
    said, charset = _content_type(answer.headers.get("content-type"))
    media_type = said or "text/plain"
    if not _is_text(media_type):
        raise Invalid(f"`{url}` is `{media_type}`, and only text can be read", field="url")
    text = decode_page(answer.body, charset=charset)
    if "\x00" in text:
        raise Invalid(f"`{url}` says that it is `{media_type}`, but is no text", field="url")
    if media_type in _HTML_TYPES or said is None and _HTML_START.match(text) is not None:
        shown = text if raw else await pages.markdown(text, base=str(url))
        return PageText(text=shown, media_type="text/html", title=_page_title(text))
    return PageText(text=text, media_type=media_type)


def _page_title(page: str) -> str | None:
    found = _TITLE.search(page)
    return None if found is None else " ".join(unescape(found[1]).split()) or None


def _content_type(header: str | None) -> tuple[str | None, str | None]:
    """Return what a header says of the type and the characters."""
    if not header:
        return None, None
    parsed = Message()
    parsed["content-type"] = re.sub(r"[\r\n]", " ", header)[:500]
    charset = parsed.get_param("charset")
    return parsed.get_content_type(), charset if isinstance(charset, str) else None


def _is_text(media_type: str) -> bool:
    return (
        media_type.startswith("text/")
        or media_type in _TEXT_TYPES | _HTML_TYPES
        or media_type.endswith(("+json", "+xml"))
    )


CHARSET_SNIFF_BYTES: Final = 1024
"""Bytes at the beginning of a page in which it may say how it is written."""
DEFAULT_CHARSET: Final = "utf-8"
LEGACY_CHARSET: Final = "cp1252"
"""What a page that is not UTF-8 and says nothing is most likely to be."""

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What pages call an encoding, and which one they mean by it: https://encoding.spec.whatwg.org/#names-and-labels
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
    re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE),
    re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE),
)


def decode_page(body: bytes, *, charset: str | None = None) -> str:
    """Return the text of a page; `charset` is what its header says. What cannot be read is replaced."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    for label in _declared_charsets(body, charset):
        if label in _CODECS_BY_LABEL:
            return body.decode(_CODECS_BY_LABEL[label], "replace")
    try:
        return body.decode(DEFAULT_CHARSET)
    except UnicodeDecodeError:
        return body.decode(LEGACY_CHARSET, "replace")


def _declared_charsets(body: bytes, charset: str | None) -> Iterator[str]:
    """Yield how it is said to be written, the surest first."""
    if charset is not None:
        yield charset.strip().lower()
    head = body[:CHARSET_SNIFF_BYTES]
    for pattern in _CHARSET_PATTERNS:
        if found := pattern.search(head):
            label = found[1].decode("ascii").lower()
            # Who could read that could not have read it as UTF-16.
            yield "utf-8" if label.startswith("utf-16") else label
