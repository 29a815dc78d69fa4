"""JSON columns and page cursors: how values are written into rows and read back."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.domain.content import Content, Json
from holdfast.domain.errors import Invalid
from holdfast.domain.limits import Limits
from holdfast.domain.message import ToolCall
from holdfast.domain.page import Page, count_fitting
from holdfast.domain.run import RunError
from holdfast.store.transaction import Row

_encoder = msgspec.json.Encoder()
_json_decoder = msgspec.json.Decoder()
_content_decoder = msgspec.json.Decoder(Content)
_tool_calls_decoder = msgspec.json.Decoder(list[ToolCall])
_limits_decoder = msgspec.json.Decoder(Limits)
_run_error_decoder = msgspec.json.Decoder(RunError)


def dump_json(value: Any) -> str:
    """Encode `value` as the text of a JSON column."""
    try:
        return _encoder.encode(value).decode()
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError, OverflowError) as exc:
        raise Invalid(f"the value cannot be encoded as JSON: {exc}") from exc


def dump_optional_json(value: Any) -> str | None:
    """Encode `value`, unless it is `None`."""
    return None if value is None else dump_json(value)


def load_json(text: str) -> Json:
    """Decode a JSON column."""
    return _json_decoder.decode(text)


def load_optional_json(text: str | None) -> Json:
    """Decode a JSON column that may be null."""
    return None if text is None else _json_decoder.decode(text)


def load_content(text: str) -> Content:
    """Decode the content of a message."""
    content: Content = _content_decoder.decode(text)
    return content


def load_tool_calls(text: str | None) -> list[ToolCall]:
    """Decode the tool calls of a message."""
    return [] if text is None else _tool_calls_decoder.decode(text)


def load_limits(text: str) -> Limits:
    """Decode the limits of a run."""
    return _limits_decoder.decode(text)


def load_run_error(text: str | None) -> RunError | None:
    """Decode the error of a run."""
    return None if text is None else _run_error_decoder.decode(text)


T = TypeVar("T")


def to_page(rows: Sequence[Row], limit: int, *, value: Callable[[Row], T], cursor: Callable[[Row], str]) -> Page[T]:
    """Return a page of `rows`, at most `limit` and as many as fit; if there are more, there is another page."""
    shown = rows[: min(limit, count_fitting(rows, _row_chars))]
    more = len(rows) > len(shown)
    return Page(items=[value(row) for row in shown], next_cursor=cursor(shown[-1]) if more else None)


def _row_chars(row: Row) -> int:
    return sum(len(column) for column in row if isinstance(column, str))


def parse_cursor(cursor: str | None, *, first_page: Sequence[int]) -> Sequence[int]:
    """Return the numbers of a cursor, as many as those of `first_page`, which are returned if there is no cursor."""
    if cursor is None:
        return first_page
    parts = cursor.split(".")
    digits = all(part.isascii() and part.isdecimal() and len(part) <= 18 for part in parts)
    if len(parts) != len(first_page) or not digits:
        raise Invalid("the cursor is not valid: leave it out to start at the first page", field="cursor")
    return [int(part) for part in parts]
