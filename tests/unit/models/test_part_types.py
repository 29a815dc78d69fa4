"""Fails when pydantic-ai adds a kind of part, delta or event, so that we decide how to handle it."""

from typing import Annotated, Any, get_args, get_origin

from pydantic_ai import messages

from holdfast.models.messages import SENT_PARTS, UNSENT_PARTS
from holdfast.models.streaming import DELTA_CONVERTERS, EVENT_CONVERTERS, PART_CONVERTERS


def test_every_request_part_is_either_sent_or_never_sent() -> None:
    assert set(SENT_PARTS) | set(UNSENT_PARTS) == _members(messages.ModelRequestPart)
    assert not SENT_PARTS & UNSENT_PARTS


def test_every_response_part_has_a_converter() -> None:
    assert set(PART_CONVERTERS) == _members(messages.ModelResponsePart)


def test_every_part_delta_has_a_converter() -> None:
    assert set(DELTA_CONVERTERS) == _members(messages.ModelResponsePartDelta)


def test_every_stream_event_has_a_converter() -> None:
    assert set(EVENT_CONVERTERS) == _members(messages.ModelResponseStreamEvent)


def _members(union: Any) -> set[type]:
    """Return the types of a union, however its members are annotated."""
    if get_origin(union) is Annotated:
        return _members(get_args(union)[0])
    inner = get_args(union) if not isinstance(union, type) else ()
    return set().union(*(_members(member) for member in inner)) if inner else {union}
