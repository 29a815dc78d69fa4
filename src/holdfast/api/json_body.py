"""JSON request bodies: decoded once into the type of the route, and rejected with a reason."""

import re
from collections.abc import Generator
from typing import Any, ClassVar, Final

import msgspec
from litestar.dto import AbstractDTO
from litestar.dto.data_structures import DTOFieldDefinition
from litestar.typing import FieldDefinition

from holdfast.api.errors import BadJson, TooDeep, UnsupportedMediaType
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.validation import (
    ValidationMessage,
    explain_validation_error,
    format_path,
    lowercase_first,
    raw_validation_message,
)

MAX_JSON_DEPTH: Final = 64
MAX_BODY_BYTES: Final = 10 * 1024 * 1024
"""Bytes of a body, where a route does not say so itself."""

_STRINGS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_ESCAPED_PAIRS: Final = re.compile(rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
"""What needs no other half: a backslash that is meant, and a whole surrogate pair."""
_LONE_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_TO_SQUARE_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NON_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_MAX_EXPLAINED_BYTES: Final = 256 * 1024
"""Bytes of a body of which it is looked for what does not fit: that reads it again and again."""


class JsonBody(AbstractDTO[Any]):
    """Reads the `data` of a route from its body."""

    model_type = object
    _decoders: ClassVar[dict[str, msgspec.json.Decoder[Any]]] = {}

    @classmethod
    def create_for_field_definition(
        cls, field_definition: FieldDefinition, handler_id: str, backend_cls: Any = None
    ) -> None:
        """Make the decoder of a route, once."""
        cls._decoders[handler_id] = msgspec.json.Decoder(field_definition.annotation)

    @classmethod
    def is_supported_model_type_field(cls, field_definition: FieldDefinition) -> bool:
        """Leave what a route returns alone."""
        return False

    @classmethod
    def generate_field_definitions(cls, model_type: type[Any]) -> Generator[DTOFieldDefinition, None, None]:
        """Leave the type as it is."""
        yield from ()

    @classmethod
    def detect_nested_field(cls, field_definition: FieldDefinition) -> bool:
        """Leave the type as it is."""
        return False

    def decode_bytes(self, value: bytes) -> Any:
        """Return the body as the type that the route names."""
        connection = self.asgi_connection
        check_json_type(connection.headers.get("content-type"))
        return decode_json(self._decoders[connection.route_handler.handler_id], value)


def check_json_type(content_type: str | None) -> None:
    """Raise unless a body of that type is JSON in UTF-8."""
    kind, _, parameters = (content_type or "").lower().partition(";")
    charset = parameters.partition("charset=")[2].strip().strip('"')
    if kind.strip() != "application/json" or charset not in ("", "utf-8"):
        raise UnsupportedMediaType(
            "the body must be JSON in UTF-8: send `Content-Type: application/json`", content_type=content_type
        )


def decode_json(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """Return what `body` says, or raise what is wrong with it."""
    check_depth(body)
    try:
        body.decode()  # all of it: the decoder stops at the first thing that does not fit
        return decoder.decode(body)
    except msgspec.ValidationError as exc:
        raise _explain_mismatch(exc, decoder, body) from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise _bad_json(exc, body) from exc


def check_no_body(body: bytes) -> None:
    """Raise if `body` says something to a route that listens to nothing; clients that must send one send `{}`."""
    if body.strip() not in (b"", b"{}"):
        raise Invalid("this takes no body: leave it out", field="body")


def check_depth(body: bytes) -> None:
    """Raise if `body` is nested too deeply to be read; whether it is JSON at all is for the decoder to say."""
    if body.count(b"[") + body.count(b"{") <= MAX_JSON_DEPTH:
        return
    brackets = _STRINGS.sub(b"", body).translate(_TO_SQUARE_BRACKETS, _NON_BRACKETS)
    for _ in range(MAX_JSON_DEPTH):  # each time the innermost pairs go
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    if brackets:
        raise TooDeep(f"the body may be nested at most {MAX_JSON_DEPTH} deep", limit=MAX_JSON_DEPTH)


def mismatch_error(error: msgspec.ValidationError, value: Json, kind: Any) -> Invalid:
    """Return the error of a value that is no `kind`, with what does not fit and what would."""
    return _invalid_body(explain_validation_error(error, value, kind))


def _explain_mismatch(error: msgspec.ValidationError, decoder: msgspec.json.Decoder[Any], body: bytes) -> Invalid:
    if len(body) > _MAX_EXPLAINED_BYTES:
        return _invalid_body(raw_validation_message(error))
    try:
        return mismatch_error(error, msgspec.json.decode(body), decoder.type)
    except msgspec.ValidationError:  # it has a number that is none
        return _invalid_body(raw_validation_message(error))
    except msgspec.DecodeError as exc:  # it is broken too, further on
        return _bad_json(exc, body)


def _bad_json(error: msgspec.DecodeError | UnicodeDecodeError, body: bytes) -> BadJson:
    """Return what is wrong with a body that is no JSON; the decoder may call half of a pair at its end truncated."""
    half = _LONE_SURROGATE.search(_ESCAPED_PAIRS.sub(b"", body))
    why = f"`{half[0].decode()}` is half of a surrogate pair" if half else lowercase_first(str(error))
    return BadJson(f"the body is not JSON in UTF-8: {why}")


def _invalid_body(complaint: ValidationMessage) -> Invalid:
    place, reason = format_path(complaint.path), lowercase_first(complaint.reason)
    return Invalid(f"`{place}`: {reason}" if place else f"the body does not fit: {reason}", field=place or "body")
