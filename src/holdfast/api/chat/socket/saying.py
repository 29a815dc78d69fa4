"""How the socket's own frames are written."""

from collections.abc import Sequence

import msgspec

from holdfast.api.errors import envelope
from holdfast.control.feeds.chunk import Item
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError


def frame(kind: str, **fields: Json) -> str:
    """Write a frame; what is null is left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    return msgspec.json.encode({"type": kind, **given}).decode()


def refusal(error: HoldfastError, **fields: Json) -> str:
    """Write what is wrong; the socket stays open."""
    given = {name: value for name, value in fields.items() if value is not None}
    problem = envelope(error).error
    return msgspec.json.encode({"type": "error", **given, "error": problem}, enc_hook=str).decode()


def tails(items: Sequence[Item]) -> list[str]:
    """Write the ends of frames that tell events: they are the same for all who follow."""
    return [f'"seq":{item.seq},"data":{item.data.decode()}}}' for item in items]
