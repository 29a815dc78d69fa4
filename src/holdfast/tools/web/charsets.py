"""Which characters the bytes of a page stand for: what its first bytes, its header or the page itself say."""

import codecs
import re
from collections.abc import Iterator
from typing import Final

LOOKED_AT: Final = 1024
"""Bytes at the beginning of a page in which it may say how it is written."""
DEFAULT: Final = "utf-8"
OLD_DEFAULT: Final = "cp1252"
"""What a page that is not UTF-8 and says nothing is most likely to be."""

_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# What pages call an encoding, and which one they mean by it: https://encoding.spec.whatwg.org/#names-and-labels
_LABELS: Final = {
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
_IN_PAGE: Final = (
    re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE),
    re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE),
)


def decoded(body: bytes, *, charset: str | None = None) -> str:
    """Return the text of a page; `charset` is what its header says. What cannot be read is replaced."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    for label in _said(body, charset):
        if label in _LABELS:
            return body.decode(_LABELS[label], "replace")
    try:
        return body.decode(DEFAULT)
    except UnicodeDecodeError:
        return body.decode(OLD_DEFAULT, "replace")


def _said(body: bytes, charset: str | None) -> Iterator[str]:
    """Yield how it is said to be written, the surest first."""
    if charset is not None:
        yield charset.strip().lower()
    head = body[:LOOKED_AT]
    for pattern in _IN_PAGE:
        if found := pattern.search(head):
            label = found[1].decode("ascii").lower()
            # Who could read that could not have read it as UTF-16.
            yield "utf-8" if label.startswith("utf-16") else label
