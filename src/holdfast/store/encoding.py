"""JSON in columns."""

from typing import Any

import msgspec

from holdfast.domain.content import Content, Json
from holdfast.domain.errors import Invalid
from holdfast.domain.limits import Limits
from holdfast.domain.message import ToolCall
from holdfast.domain.run import RunError

_encoder = msgspec.json.Encoder()
_json = msgspec.json.Decoder()
_content = msgspec.json.Decoder(Content)
_tool_calls = msgspec.json.Decoder(list[ToolCall])
_limits = msgspec.json.Decoder(Limits)
_run_error = msgspec.json.Decoder(RunError)


def dump(value: Any) -> str:
    """Write `value` as the text of a JSON column."""
    try:
        return _encoder.encode(value).decode()
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError, OverflowError) as exc:
        raise Invalid(f"this cannot be written as JSON: {exc}") from exc


def dump_optional(value: Any) -> str | None:
    """Write `value`, unless there is none."""
    return None if value is None else dump(value)


def load(text: str) -> Json:
    """Read a JSON column."""
    return _json.decode(text)


def load_optional(text: str | None) -> Json:
    """Read a JSON column that may be empty."""
    return None if text is None else _json.decode(text)


def load_content(text: str) -> Content:
    """Read what a message is made of."""
    content: Content = _content.decode(text)
    return content


def load_tool_calls(text: str | None) -> list[ToolCall]:
    """Read what a message asks for."""
    return [] if text is None else _tool_calls.decode(text)


def load_limits(text: str) -> Limits:
    """Read the limits of a run."""
    return _limits.decode(text)


def load_run_error(text: str | None) -> RunError | None:
    """Read why a run failed."""
    return None if text is None else _run_error.decode(text)
