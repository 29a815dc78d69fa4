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
    check_decode_cost,
    explain_validation_error,
    format_path,
    lowercase_first,
    raw_validation_message,
)

MAX_JSON_DEPTH: Final = 64
MAX_BODY_BYTES: Final = 10 * 1024 * 1024
"""Bytes of a request body, unless a route sets its own limit."""
_SURROGATE_PAIR: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_LONE_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_TO_SQUARE_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NEITHER_BRACKETS_NOR_QUOTES: Final = bytes(set(range(256)) - set(b'[]{}"'))
_MAX_EXPLAINED_BYTES: Final = 256 * 1024
"""Bytes of a body up to which a mismatch is explained: the explanation decodes the body repeatedly."""


class JsonBody(AbstractDTO[Any]):
    """Decodes the `data` argument of a route from the request body."""

    model_type = object
    _decoders: ClassVar[dict[str, msgspec.json.Decoder[Any]]] = {}

    @classmethod
    def create_for_field_definition(
        cls, field_definition: FieldDefinition, handler_id: str, backend_cls: Any = None
    ) -> None:
        """Create the decoder of a route, once."""
        cls._decoders[handler_id] = msgspec.json.Decoder(field_definition.annotation)

    @classmethod
    def is_supported_model_type_field(cls, field_definition: FieldDefinition) -> bool:
        """Return `False`: responses are not transformed."""
        return False

    @classmethod
    def generate_field_definitions(cls, model_type: type[Any]) -> Generator[DTOFieldDefinition, None, None]:
        """Yield nothing: msgspec decodes the type as it is."""
        yield from ()

    @classmethod
    def detect_nested_field(cls, field_definition: FieldDefinition) -> bool:
        """Return `False`: msgspec decodes the type as it is."""
        return False

    def decode_bytes(self, value: bytes) -> Any:
        """Decode the body into the type of the route."""
        connection = self.asgi_connection
        check_json_type(connection.headers.get("content-type"))
        return decode_json(self._decoders[connection.route_handler.handler_id], value)


def check_json_type(content_type: str | None) -> None:
    """Raise unless a content type is JSON in UTF-8."""
    media_type, _, parameters = (content_type or "").lower().partition(";")
    charset = parameters.partition("charset=")[2].strip().strip('"')
    if media_type.strip() != "application/json" or charset not in ("", "utf-8"):
        raise UnsupportedMediaType(
            "the body must be JSON in UTF-8: send `Content-Type: application/json`", content_type=content_type
        )


def decode_json(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """Decode a body, or raise an error that explains the problem."""
    check_depth(body)
    try:
        body.decode()  # the whole body: the decoder stops at the first mismatch
        return decoder.decode(body)
    except msgspec.ValidationError as exc:
        raise _explain_mismatch(exc, decoder, body) from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise _bad_json(exc, body) from exc


def check_no_body(body: bytes) -> None:
    """Raise unless a body is empty or `{}`, which some clients must send."""
    if body.strip() not in (b"", b"{}"):
        raise Invalid("the route takes no body: leave it out", field="body")


def check_depth(body: bytes) -> None:
    """Raise an error if a body costs too much to decode or is nested too deeply; the decoder checks if it is JSON."""
    check_decode_cost(body)
    opening = body.count(b"[") + body.count(b"{")
    if opening <= MAX_JSON_DEPTH:
        return
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
    # Every second part between quotes is a text. Empty ones are removed first: there may be millions.
    parts = unescaped.translate(_TO_SQUARE_BRACKETS, _NEITHER_BRACKETS_NOR_QUOTES).replace(b'""', b"").split(b'"')
    brackets = b"".join(parts[::2])
    for _ in range(MAX_JSON_DEPTH):  # each pass removes the innermost pairs
        remaining = brackets.replace(b"[]", b"")
        if not remaining:
            return
        if len(remaining) == len(brackets):
            break  # it is not balanced
        brackets = remaining
    raise TooDeep(f"the body may be nested at most {MAX_JSON_DEPTH} deep", limit=MAX_JSON_DEPTH)


def mismatch_error(error: msgspec.ValidationError, value: Json, kind: Any) -> Invalid:
    """Return the error of a value that is not a `kind`, with the expected type."""
    return _invalid_body(explain_validation_error(error, value, kind))


def _explain_mismatch(error: msgspec.ValidationError, decoder: msgspec.json.Decoder[Any], body: bytes) -> Invalid:
    if len(body) > _MAX_EXPLAINED_BYTES:
        return _invalid_body(raw_validation_message(error))
    try:
        return mismatch_error(error, msgspec.json.decode(body), decoder.type)
    except msgspec.ValidationError:  # the body has an invalid number
        return _invalid_body(raw_validation_message(error))
    except msgspec.DecodeError as exc:  # the body is also malformed, further on
        return _bad_json(exc, body)


def _bad_json(error: msgspec.DecodeError | UnicodeDecodeError, body: bytes) -> BadJson:
    """Return the error of malformed JSON; for a lone surrogate the decoder's own message may be misleading."""
    unescaped = body.replace(rb"\\", b"")  # not by the pattern: there may be millions
    surrogate = _LONE_SURROGATE.search(_SURROGATE_PAIR.sub(b"", unescaped))
    why = f"`{surrogate[0].decode()}` is a lone surrogate" if surrogate else lowercase_first(str(error))
    return BadJson(f"the body is not JSON in UTF-8: {why}")


def _invalid_body(problem: ValidationMessage) -> Invalid:
    path, reason = format_path(problem.path), lowercase_first(problem.reason)
    return Invalid(f"`{path}`: {reason}" if path else f"the body is not valid: {reason}", field=path or "body")
