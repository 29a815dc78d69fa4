"""What an agent reads of an answer: pages as Markdown, other text as it is, and nothing else."""

import re
from email.message import Message
from html import unescape
from typing import Final

import msgspec

from holdfast.domain.errors import Invalid
from holdfast.domain.web_url import WebUrl
from holdfast.tools.web.charsets import decoded
from holdfast.tools.web.http import Answer
from holdfast.tools.web.pages import Pages

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = frozenset(
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
_PAGE: Final = re.compile(r"\s*(<!--.{0,1000}?-->\s*)?<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)

_TITLE: Final = re.compile(r"<title(?:\s[^>]{0,200})?>([^<]{1,500})</title", re.IGNORECASE)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The text of an answer."""

    text: str
    media_type: str
    title: str | None = None


async def read(url: WebUrl, answer: Answer, pages: Pages, *, raw: bool = False) -> Reading:
    """Return what an answer says; raise `Invalid` if it is no text. A page is Markdown unless it is wanted `raw`."""
    said, charset = _content_type(answer.headers.get("content-type"))
    media_type = said or "text/plain"
    if not _is_text(media_type):
        raise Invalid(f"`{url}` is `{media_type}`, and only text can be read", field="url")
    text = decoded(answer.body, charset=charset)
    if "\x00" in text:
        raise Invalid(f"`{url}` says that it is `{media_type}`, but is no text", field="url")
    if media_type in _HTML or said is None and _PAGE.match(text) is not None:
        shown = text if raw else await pages.markdown(text, base=str(url))
        return Reading(text=shown, media_type="text/html", title=_title(text))
    return Reading(text=text, media_type=media_type)


def _title(page: str) -> str | None:
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
    return media_type.startswith("text/") or media_type in _TEXT | _HTML or media_type.endswith(("+json", "+xml"))
