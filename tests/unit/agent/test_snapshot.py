"""Context snapshots can be read back, and are small."""

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.agent.context.assembly import ContextInput
from holdfast.agent.context.snapshot import take_snapshot
from holdfast.agent.context.tokens import MessageSizer, measure_tools
from holdfast.domain.context import (
    Compaction,
    ContextSnapshot,
    SentRange,
    SentText,
    restore_context,
    strip_texts,
    text_digest,
)
from holdfast.domain.errors import NotFound
from holdfast.domain.message import Role
from holdfast.ports.model import ToolDefinition
from tests.unit.agent.builders import TOKENS, Log, assemble_context, call, context_input

LOOK = ToolDefinition(name="look", description="Look.", parameters={"type": "object"})


def test_messages_are_stored_as_ranges_and_notes_as_text() -> None:
    log, inputs = _conversation()
    snapshot = _take_snapshot(replace(inputs, compaction=Compaction(through=1, summary="they met")))
    assert [type(part) for part in snapshot.conversation] == [SentText, SentRange]
    assert snapshot.conversation[1] == SentRange(first=2, last=4, count=3)
    assert snapshot.compaction_through == 1
    assert snapshot.reminders == ("stay on course",)


def test_a_snapshot_is_smaller_than_its_context() -> None:
    log, inputs = _conversation()
    for number in range(100):
        log.exchange(call(f"d{number}", at=number), result="a long answer " * 50)
    assert len(msgspec.json.encode(strip_texts(_take_snapshot(inputs)))) < 1_000


def test_a_snapshot_is_the_same_when_it_is_decoded() -> None:
    snapshot = _take_snapshot(_conversation()[1])
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=ContextSnapshot) == snapshot


def test_the_tools_are_read_back() -> None:
    log, inputs = _conversation()
    read = restore_context(_take_snapshot(inputs), _take_snapshot(inputs).texts, log.messages)
    assert read.tools == [{"name": "look", "description": "Look.", "parameters": {"type": "object"}}]
    assert [segment.name for segment in read.segments] == ["core"]
    assert (read.step, read.model) == (7, "scripted:x")


def test_shortened_results_are_read_back_as_they_were_sent() -> None:
    log = Log()
    goal = log.user("look")
    log.exchange(call("c1"), result="x y " * 5_000)
    inputs = context_input(log, goal=goal, window=3_000)
    context, snapshot = assemble_context(inputs), _take_snapshot(inputs)
    read = restore_context(snapshot, snapshot.texts, log.messages)
    assert read.messages[-1].content == context.messages[-1].content
    assert "characters are left out here" in str(read.messages[-1].content)
    assert read.messages[-1].id == log.messages[-1].id


def test_a_message_without_a_sequence_is_stored_as_text() -> None:
    log = Log()
    goal = replace(log.user("hello"), sequence=None)
    inputs = replace(context_input(log, goal=goal), messages=[goal])
    read = restore_context(_take_snapshot(inputs), _take_snapshot(inputs).texts, [])
    assert [(message.id, message.content) for message in read.messages] == [(goal.id, "hello")]


def test_a_context_with_deleted_messages_is_marked_incomplete() -> None:
    log, inputs = _conversation()
    snapshot = _take_snapshot(inputs)
    assert restore_context(snapshot, snapshot.texts, log.messages).complete
    assert not restore_context(snapshot, snapshot.texts, log.messages[1:]).complete


def test_a_deleted_text_is_not_found() -> None:
    log, inputs = _conversation()
    with pytest.raises(NotFound, match="no longer stored"):
        restore_context(_take_snapshot(inputs), {}, log.messages)


def test_the_same_text_has_the_same_digest_and_another_text_another() -> None:
    assert text_digest("tea") == text_digest("tea") != text_digest("coffee")
    assert len(text_digest("tea")) == 32


def test_the_message_sizer_has_a_cache_limit() -> None:
    log, _ = _conversation()
    sizes = MessageSizer(TOKENS, max_cached=2)
    measured = [sizes.stored(message) for message in log.messages]
    sizes_again = [sizes.stored(message) for message in reversed(log.messages)]
    assert sizes_again[0] is measured[-1]
    assert sizes_again == measured[::-1]
    assert sizes.note(Role.USER, "hello") is sizes.note(Role.USER, "hello")


def _conversation() -> tuple[Log, ContextInput]:
    log = Log()
    log.user("hello")
    log.says("hello to you")
    goal = log.user("look")
    log.exchange(call("c1"), result="a cat")
    inputs = context_input(log, goal=goal, reminders=("stay on course",))
    return log, replace(inputs, tools=measure_tools([LOOK], tokens=TOKENS))


def _take_snapshot(inputs: ContextInput) -> ContextSnapshot:
    return take_snapshot(assemble_context(inputs), inputs, step=7, model="scripted:x")
