"""What a provider wants back with an answer: signed thoughts, ids, and the order in which the answer was given.

It is kept beside the message, which has the words and the calls already: here a text is only its length, and a call
only its place. So it is used while it fits its message, and forgotten when it does not.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pydantic
from pydantic_ai import messages as told

from holdfast.domain.content import Json
from holdfast.domain.message import Message, NewMessage
from holdfast.models.text import words

KEY: Final = "provider"
"""Where in the metadata of a message it is kept."""

_ABOUT: Final = ("model_name", "provider_name", "provider_url", "canonical_system", "provider_response_id")
_parts: Final = pydantic.TypeAdapter(list[told.ModelResponsePart], config=pydantic.ConfigDict(ser_json_bytes="base64"))


def keep(response: told.ModelResponse) -> dict[str, Json]:
    """Return what to keep of an answer: nothing if its words and calls say it all."""
    if not any(_says_more(part) for part in response.parts):
        return {}
    dumped: list[dict[str, Any]] = _parts.dump_python(list(response.parts), mode="json", exclude_none=True)
    about = {field: value for field in _ABOUT if (value := getattr(response, field)) is not None}
    kept = {**about, "parts": [_thinned(part) for part in dumped]}
    return kept if _is_storable(kept) else {}


def restored(message: Message | NewMessage) -> told.ModelResponse | None:
    """Return the answer that a message was, if what was kept of it still fits."""
    kept = message.metadata.get(KEY)
    if not isinstance(kept, dict) or not isinstance(kept.get("parts"), list):
        return None
    try:
        parts = _parts.validate_python(list(_filled(kept["parts"], message)))
    except (pydantic.ValidationError, _Misfit):
        return None
    return told.ModelResponse(parts=parts, **{field: kept[field] for field in _ABOUT if field in kept})


def _is_storable(kept: dict[str, Json]) -> bool:
    try:
        msgspec.json.encode(kept)
    except UnicodeEncodeError:
        return False  # half of a surrogate pair: changed thoughts would no longer be the ones that were signed
    return True


class _Misfit(Exception):
    """What was kept belongs to another message."""


def _says_more(part: told.ModelResponsePart) -> bool:
    if isinstance(part, told.TextPart | told.ToolCallPart):
        return bool(part.id or part.provider_details)
    return True


def _thinned(part: dict[str, Any]) -> dict[str, Any]:
    match part["part_kind"]:
        case "text":
            return {**part, "content": len(part["content"])}
        case "tool-call":
            return {key: value for key, value in part.items() if key not in ("args", "tool_call_id")}
        case _:
            return part


def _filled(parts: Sequence[Any], message: Message | NewMessage) -> Iterator[dict[str, Any]]:
    """Yield the parts with the words and the calls of the message, of which nothing may be left over."""
    text, calls = words(message.content), iter(message.tool_calls)
    for part in parts:
        match part:
            case {"part_kind": "text", "content": int(length)} if length <= len(text):
                yield {**part, "content": text[:length]}
                text = text[length:]
            case {"part_kind": "tool-call", "tool_name": name}:
                call = next(calls, None)
                if call is None or call.name != name:
                    raise _Misfit
                yield {**part, "args": call.arguments, "tool_call_id": call.id}
            case {"part_kind": "text" | "tool-call"}:
                raise _Misfit
            case {"part_kind": str()}:
                yield part
            case _:
                raise _Misfit
    if text or next(calls, None) is not None:
        raise _Misfit
