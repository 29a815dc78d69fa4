"""Properties of every assembled context, for any conversation and any budget."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.agent.context.assembly import AssembledContext, ContextInput, assemble
from holdfast.agent.context.snapshot import take_snapshot
from holdfast.agent.context.tokens import MessageSizer
from holdfast.agent.context.units import Unit, group_units
from holdfast.domain.context import (
    NO_COMPACTION,
    CollapsedTask,
    Compaction,
    restore_context,
    strip_texts,
    text_digests,
    to_read_message,
)
from holdfast.domain.message import Message, Role
from holdfast.domain.plan import Boundary
from holdfast.domain.untrusted import unmark
from tests.unit.agent.builders import TOKENS, Log, assembled, segment
from tests.unit.agent.conversations import conversations, words

windows = st.one_of(st.integers(200, 3_000), st.integers(3_000, 60_000))


@st.composite
def contexts(draw: st.DrawFn) -> ContextInput:
    log, goal = draw(conversations())
    start = draw(st.integers(0, len(log.messages))) if draw(st.booleans()) else 0
    return ContextInput(
        messages=log.messages[start:],
        whole=start == 0,
        goal=goal,
        segments=[segment(), segment("time", "It is late.")],
        window=draw(windows),
        compaction=draw(_compactions(log)),
        reminders=draw(st.sampled_from([(), ("stay on course",)])),
    )


_Rule = TypeVar("_Rule", bound=Callable[[ContextInput], None])


def for_every_context(rule: _Rule) -> _Rule:
    return settings(max_examples=40)(for_all(contexts())(rule))  # type: ignore[return-value]


@for_every_context
def test_no_call_is_sent_without_its_results_and_no_result_without_its_call(what: ContextInput) -> None:
    open_calls: set[str] = set()
    for message in assembled(what).messages:
        if message.role is Role.TOOL:
            assert message.tool_call_id in open_calls
            open_calls.discard(message.tool_call_id or "")
        else:
            assert open_calls == set()
        open_calls |= {call.id for call in message.tool_calls}
    assert open_calls == set()


@for_every_context
def test_the_order_is_kept(what: ContextInput) -> None:
    sequences = [message.sequence for message in _stored(assembled(what)) if message.sequence is not None]
    assert sequences == sorted(set(sequences))


@for_every_context
def test_the_newest_unit_and_the_goal_are_always_sent(what: ContextInput) -> None:
    sent = assembled(what)
    ids = {message.id for message in sent.messages}
    assert sent.messages
    assert what.goal is None or what.goal.id in ids
    live = group_units(_live(what, sent), sizes=MessageSizer(TOKENS))
    assert not live or {part.message.id for part in live[-1].messages} <= ids


@for_every_context
def test_the_budget_is_kept_unless_the_required_parts_exceed_it(what: ContextInput) -> None:
    sent = assembled(what)
    used = sent.tokens["earlier"] + sent.tokens["conversation"]
    must = (
        sent.tokens["earlier"]
        + _newest(sent)
        + (0 if what.goal is None else MessageSizer(TOKENS).count_message(what.goal))
    )
    assert used <= max(sent.budget.conversation, must)


@for_every_context
def test_no_unit_that_fits_is_omitted(what: ContextInput) -> None:
    sent = assembled(what)
    live = group_units(_live(what, sent), sizes=MessageSizer(TOKENS))
    older = what.goal is not None and what.goal not in what.messages
    everything = sum(unit.tokens for unit in live) + (
        MessageSizer(TOKENS).count_message(what.goal) if what.goal and older else 0
    )
    if everything + sent.tokens["earlier"] <= sent.budget.conversation and sent.compaction.collapsed == ():
        assert {part.message.id for unit in live for part in unit.messages} <= {each.id for each in sent.messages}


@for_every_context
def test_user_messages_are_kept_whatever_collapses(what: ContextInput) -> None:
    sent = assembled(replace(what, window=10_000_000))
    ids = {message.id for message in sent.messages}
    assert [message for message in _live(what, sent) if message.role is Role.USER and message.id not in ids] == []


@for_every_context
def test_no_content_can_close_its_untrusted_tag(what: ContextInput) -> None:
    contents = {message.id: message.content for message in [*what.messages, *filter(None, [what.goal])]}
    for message in _stored(assembled(what)):
        if isinstance(message.content, str) and message.content != contents[message.id]:
            opening, _, rest = message.content.partition("\n")
            tag = opening[1:].partition(" ")[0]
            assert rest.count(tag) == 1
            assert rest.endswith(f"\n</{tag}>")
            assert unmark(message.content) == contents[message.id]


@for_every_context
def test_content_of_others_is_always_marked_untrusted(what: ContextInput) -> None:
    tools = {call.id: call.name for message in what.messages for call in message.tool_calls}
    for message in assembled(what).messages:
        data = message.role is Role.TOOL and tools[message.tool_call_id or ""] != "ask_user"  # type: ignore[index]
        if data or "source" in message.metadata:
            assert str(message.content).startswith("<untrusted-")


@for_every_context
def test_assembling_twice_gives_the_same_context(what: ContextInput) -> None:
    sizes = MessageSizer(TOKENS)
    first = assemble(what, sizes=sizes)
    assert assemble(what, sizes=sizes) == first == assemble(what, sizes=MessageSizer(TOKENS, max_cached=1))


@for_every_context
def test_a_snapshot_reads_back_what_was_sent(what: ContextInput) -> None:
    sent = assembled(what)
    snapshot = take_snapshot(sent, what, step=3, model="scripted:x")
    older = [what.goal] if what.goal is not None and what.goal not in what.messages else []
    chain = [*older, *what.messages]
    assert set(text_digests(snapshot)) == set(snapshot.texts)
    read = restore_context(strip_texts(snapshot), snapshot.texts, chain)
    assert read.complete
    assert read.system == sent.system
    assert list(read.messages) == [to_read_message(message) for message in sent.messages]
    assert read.tokens == sent.tokens


@st.composite
def _compactions(draw: st.DrawFn, log: Log) -> Compaction:
    """Draw a summary of the conversation up to the end of a unit, and completed items that collapse."""
    there = group_units(log.messages, sizes=MessageSizer(TOKENS))
    ends = [unit.last for unit in there if unit.last is not None]
    if not ends or draw(st.booleans()):
        return NO_COMPACTION
    through = draw(st.one_of(st.none(), st.sampled_from(ends)))
    return Compaction(
        through=through,
        summary="" if through is None else draw(st.text(min_size=1, max_size=40)),
        collapsed=tuple(draw(st.lists(_spans(there), max_size=3))),
    )


@st.composite
def _spans(draw: st.DrawFn, there: Sequence[Unit]) -> CollapsedTask:
    places = [unit.first for unit in there if unit.first is not None and unit.head.tool_calls] or [0]
    first, last = sorted([draw(st.sampled_from(places)), draw(st.sampled_from(places))])
    return CollapsedTask(
        task_id=draw(st.integers(1, 99)),
        title=draw(words),
        conclusion=draw(words),
        start=Boundary(message_sequence_num=first, content_sequence_num=draw(st.integers(0, 1))),
        end=Boundary(message_sequence_num=last, content_sequence_num=draw(st.integers(0, 4))),
    )


def _stored(sent: AssembledContext) -> list[Message]:
    return [message for message in sent.messages if isinstance(message, Message)]


def _live(what: ContextInput, sent: AssembledContext) -> list[Message]:
    through = -1 if sent.compaction.through is None else sent.compaction.through
    return [message for message in what.messages if message.sequence is not None and message.sequence > through]


def _newest(sent: AssembledContext) -> int:
    """Return the tokens of the last unit that is sent."""
    said = [each for each in sent.sent if each.message.role is not Role.SYSTEM]
    total = 0
    for each in reversed(said):
        total += each.tokens
        if each.message.role is not Role.TOOL:
            break
    return total
