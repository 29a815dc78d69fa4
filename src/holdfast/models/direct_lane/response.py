"""A response that arrives in pieces: the deltas to emit, and the parts that its provider may need back.

Pieces of one packet that follow each other are emitted as one delta. Parts have keys, as the provider numbers or names
them; those in the kept data are parts of pydantic-ai, so that both lanes store the same.
"""

import json
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Literal, NoReturn, TypeAlias

import msgspec
from pydantic_ai import messages as ai
from pydantic_ai.usage import RequestUsage

from holdfast.models.streaming import CallIds, ToolCallBuilder
from holdfast.models.text import replace_surrogates
from holdfast.ports.model import ModelDelta, ReasoningDelta, TextDelta

FinishReason: TypeAlias = Literal["stop", "length", "tool_call", "content_filter", "error"]


class UnsupportedPart(Exception):
    """The response has a part that the lane does not know; the library may."""


class ProviderErrorEvent(Exception):
    """The stream contains an error of the provider."""


class TextPiece:
    """A text part."""

    __slots__ = ("details", "id", "texts")

    def __init__(self, id: str | None, details: dict[str, Any] | None) -> None:
        self.id = id
        self.details = details
        self.texts: list[str] = []


class ThinkingPiece:
    """A reasoning part."""

    __slots__ = ("details", "id", "provider", "signature", "texts")

    def __init__(self, id: str | None, provider: str | None) -> None:
        self.id = id
        self.provider = provider
        self.signature: str | None = None
        self.details: dict[str, Any] | None = None
        self.texts: list[str] = []


class CallPiece:
    """A tool call; it has no builder until its name is known."""

    __slots__ = ("arguments", "awaits_name", "builder", "call_id", "details", "id")

    def __init__(self, id: str | None = None) -> None:
        self.id = id
        self.awaits_name = False
        """Whether a piece without a name has come; an empty name does not name it then."""
        self.call_id: str | None = None
        self.arguments: str | dict[str, Any] | None = None
        """The arguments before the name is known, then only their kind matters."""
        self.details: dict[str, Any] | None = None
        self.builder: ToolCallBuilder | None = None


Piece: TypeAlias = TextPiece | ThinkingPiece | CallPiece


class StreamedResponse:
    """One response; `used_ids` are the call ids of the conversation so far."""

    def __init__(self, provider: str, model_name: str, used_ids: Iterable[str]) -> None:
        self.provider: Final = provider
        self.model_name = model_name
        self.response_id: str | None = None
        self.usage = RequestUsage()
        self.finish_reason: FinishReason | None = None
        self.finish_named = False
        """Whether the provider gave a reason, known or not. A stream that only stops was cut off."""
        self.complete = True
        self.refusal: str | None = None
        self.has_output = False
        """Whether there was any output other than reasoning."""
        self.ended = False
        """Whether the last event has arrived; the connection may stay open."""
        self.pieces: Final[list[Piece]] = []
        self._pieces_by_key: dict[Hashable, Piece] = {}
        self._ids = CallIds(used_ids)
        self._deltas: list[ModelDelta] = []
        self._texts: list[str] = []
        self._text_type: type[TextDelta] | type[ReasoningDelta] = TextDelta

    def take_deltas(self) -> list[ModelDelta]:
        """Return the deltas since the last time."""
        self._flush()
        deltas, self._deltas = self._deltas, []
        return deltas

    def find(self, key: Hashable) -> Piece | None:
        """Return the part with this key."""
        return self._pieces_by_key.get(key)

    def forget(self, key: Hashable) -> None:
        """Let the next piece with this key start a new part."""
        self._pieces_by_key.pop(key, None)

    def start_text(self, key: Hashable, *, id: str | None = None, details: dict[str, Any] | None = None) -> TextPiece:
        """Start a text part."""
        piece = TextPiece(id, details)
        self._start(key, piece)
        return piece

    def add_text(self, piece: TextPiece, text: str) -> None:
        """Add to a text part."""
        if text:
            self.has_output = True
            piece.texts.append(text)
            self._emit(TextDelta, text)

    def start_thinking(self, key: Hashable, *, id: str | None = None, provider: str | None = None) -> ThinkingPiece:
        """Start a reasoning part."""
        piece = ThinkingPiece(id, provider)
        self._start(key, piece)
        return piece

    def add_thinking(self, piece: ThinkingPiece, text: str) -> None:
        """Add to a reasoning part."""
        if text:
            piece.texts.append(text)
            self._emit(ReasoningDelta, text)

    def thinking(self, key: Hashable, *, id: str | None = None) -> ThinkingPiece:
        """Return the reasoning part with this key, started if there is none."""
        piece = self.find(key)
        if piece is None:
            return self.start_thinking(key, id=id, provider=self.provider)
        return piece if type(piece) is ThinkingPiece else _wrong_part("reasoning", piece)

    def start_call(self, key: Hashable, *, id: str | None = None) -> CallPiece:
        """Start a tool call, which is emitted once its name is known."""
        piece = CallPiece(id)
        self.pieces.append(piece)
        if key is not None:
            self._pieces_by_key[key] = piece
        return piece

    def add_to_call(
        self, piece: CallPiece, *, name: str | None, call_id: str | None, arguments: str | dict[str, Any] | None
    ) -> bool:
        """Add to a tool call; return whether its name became known with this."""
        if arguments is not None and piece.arguments is not None and type(arguments) is not type(piece.arguments):
            raise ValueError("the arguments of a call are partly text and partly an object")
        builder = piece.builder
        if builder is not None:
            piece.arguments = arguments if piece.arguments is None else piece.arguments
            deltas = builder.extend_name(name) or builder.extend_arguments(arguments)
            if deltas:
                self._flush()
                self._deltas += deltas
            return False
        piece.call_id = call_id or piece.call_id
        piece.arguments = _joined(piece.arguments, arguments)
        if name is None or (piece.awaits_name and not name):
            piece.awaits_name = True
            return False
        self._end_last_call()
        self._flush()
        self.has_output = True
        piece.builder = builder = self._last_call = ToolCallBuilder(self._ids.unique(piece.call_id or ""), name)
        self._deltas += builder.extend_arguments(piece.arguments)
        return True

    def finish(self) -> None:
        """End the last part."""
        self._end_last_call()

    def to_model_response(self, *, provider_url: str, canonical_system: str | None) -> ai.ModelResponse | None:
        """Return the parts that the provider may need back; null if text and calls are all there is."""
        if not any(
            type(piece) is ThinkingPiece or piece.id or piece.details
            for piece in self.pieces
            if type(piece) is not CallPiece or piece.builder is not None
        ):
            return None
        return ai.ModelResponse(
            parts=[part for piece in self.pieces if (part := self._to_part(piece)) is not None],
            model_name=self.model_name,
            provider_name=self.provider,
            provider_url=provider_url,
            canonical_system=canonical_system,
            provider_response_id=self.response_id,
        )

    @property
    def has_calls(self) -> bool:
        """Whether there is a tool call."""
        return any(type(piece) is CallPiece and piece.builder is not None for piece in self.pieces)

    @property
    def has_unnamed_calls(self) -> bool:
        """Whether there is a tool call whose name never came."""
        return any(type(piece) is CallPiece and piece.builder is None for piece in self.pieces)

    _last_call: ToolCallBuilder | None = None

    def _start(self, key: Hashable, piece: Piece) -> None:
        self._end_last_call()
        self.pieces.append(piece)
        self._pieces_by_key[key] = piece

    def _end_last_call(self) -> None:
        """Emit a call without arguments when the next part starts."""
        if self._last_call is not None:
            started = self._last_call.start()
            if started:
                self._flush()
                self._deltas += started
            self._last_call = None

    def _emit(self, kind: type[TextDelta] | type[ReasoningDelta], text: str) -> None:
        if self._text_type is not kind:
            self._flush()
            self._text_type = kind
        self._texts.append(text)

    def _flush(self) -> None:
        if self._texts:
            self._deltas.append(self._text_type(replace_surrogates("".join(self._texts))))
            self._texts.clear()

    def _to_part(self, piece: Piece) -> ai.ModelResponsePart | None:
        match piece:
            case TextPiece():
                owned = piece.id is not None or piece.details is not None
                return ai.TextPart(
                    content="".join(piece.texts),
                    id=piece.id,
                    provider_name=self.provider if owned else None,
                    provider_details=piece.details,
                )
            case ThinkingPiece():
                return ai.ThinkingPart(
                    content="".join(piece.texts),
                    id=piece.id,
                    signature=piece.signature,
                    provider_name=piece.provider,
                    provider_details=piece.details,
                )
            case CallPiece():
                if piece.builder is None:
                    return None
                owned = piece.id is not None or piece.details is not None
                return ai.ToolCallPart(
                    tool_name=piece.builder.name,
                    id=piece.id,
                    provider_name=self.provider if owned else None,
                    provider_details=piece.details,
                )


def _joined(before: str | dict[str, Any] | None, more: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    if isinstance(before, str) and isinstance(more, str):
        return before + more
    if isinstance(before, dict) and isinstance(more, dict):
        return {**before, **more}
    return before if more is None else more


def _wrong_part(kind: str, piece: Piece) -> NoReturn:
    raise ValueError(f"{kind} was added to a {type(piece).__name__}")


def without_nulls(value: Any) -> Any:
    """Return JSON without keys whose value is null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


Decode: TypeAlias = Callable[[bytes], Any]


def lenient_decoder(kind: type[Any]) -> Decode:
    """Return a decoder of JSON that also accepts half of a surrogate pair, which `json` does and msgspec does not."""
    decode = msgspec.json.Decoder(kind).decode

    def decode_leniently(data: bytes) -> Any:
        try:
            return decode(data)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return msgspec.convert(json.loads(data), kind)

    return decode_leniently
