"""What the three kinds of chunk have in common."""

from typing import TypeAlias

from msgspec import UNSET

from holdfast.domain.events import ReasoningMessageChunk, TextMessageChunk, ToolCallChunk

Chunk: TypeAlias = TextMessageChunk | ToolCallChunk | ReasoningMessageChunk


def has_content(chunk: Chunk, *, opened: bool) -> bool:
    """Tell whether `chunk` says more than the start that it was `opened` with."""
    if chunk.delta is not UNSET or chunk.raw_event is not UNSET:
        return True
    return chunk.metadata is not UNSET and not opened
