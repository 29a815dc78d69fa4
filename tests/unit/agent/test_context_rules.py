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
from tests.unit.agent.builders import TOKENS, Log, assemble_context, segment
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
def test_no_call_is_sent_without_its_results_and_no_result_without_its_call(inputs: ContextInput) -> None:
    open_calls: set[str] = set()
    for message in assemble_context(inputs).messages:
        if message.role is Role.TOOL:
            assert message.tool_call_id in open_calls
            open_calls.discard(message.tool_call_id or "")
        else:
            assert open_calls == set()
        open_calls |= {call.id for call in message.tool_calls}
    assert open_calls == set()


@for_every_context
def test_the_order_is_kept(inputs: ContextInput) -> None:
    sequences = [message.sequence for message in _stored(assemble_context(inputs)) if message.sequence is not None]
    assert sequences == sorted(set(sequences))


@for_every_context
def test_the_newest_unit_and_the_goal_are_always_sent(inputs: ContextInput) -> None:
    context = assemble_context(inputs)
    ids = {message.id for message in context.messages}
    assert context.messages
    assert inputs.goal is None or inputs.goal.id in ids
    live = group_units(_live(inputs, context), sizes=MessageSizer(TOKENS))
    assert not live or {part.message.id for part in live[-1].messages} <= ids


@for_every_context
def test_the_budget_is_kept_unless_the_required_parts_exceed_it(inputs: ContextInput) -> None:
    context = assemble_context(inputs)
    used = context.tokens["earlier"] + context.tokens["conversation"]
    must = (
        context.tokens["earlier"]
        + _newest(context)
        + (0 if inputs.goal is None else MessageSizer(TOKENS).count_message(inputs.goal))
    )
    assert used <= max(context.budget.conversation, must)


@for_every_context
def test_no_unit_that_fits_is_omitted(inputs: ContextInput) -> None:
    context = assemble_context(inputs)
    live = group_units(_live(inputs, context), sizes=MessageSizer(TOKENS))
    older = inputs.goal is not None and inputs.goal not in inputs.messages
    everything = sum(unit.tokens for unit in live) + (
        MessageSizer(TOKENS).count_message(inputs.goal) if inputs.goal and older else 0
    )
    if everything + context.tokens["earlier"] <= context.budget.conversation and context.compaction.collapsed == ():
        assert {part.message.id for unit in live for part in unit.messages} <= {each.id for each in context.messages}


@for_every_context
def test_user_messages_are_kept_whatever_collapses(inputs: ContextInput) -> None:
    context = assemble_context(replace(inputs, window=10_000_000))
    ids = {message.id for message in context.messages}
    assert [message for message in _live(inputs, context) if message.role is Role.USER and message.id not in ids] == []


@for_every_context
def test_no_content_can_close_its_untrusted_tag(inputs: ContextInput) -> None:
    contents = {message.id: message.content for message in [*inputs.messages, *filter(None, [inputs.goal])]}
    for message in _stored(assemble_context(inputs)):
        if isinstance(message.content, str) and message.content != contents[message.id]:
            opening, _, rest = message.content.partition("\n")
            tag = opening[1:].partition(" ")[0]
            assert rest.count(tag) == 1
            assert rest.endswith(f"\n</{tag}>")
            assert unmark(message.content) == contents[message.id]


@for_every_context
def test_content_of_others_is_always_marked_untrusted(inputs: ContextInput) -> None:
    tools = {call.id: call.name for message in inputs.messages for call in message.tool_calls}
    for message in assemble_context(inputs).messages:
        data = message.role is Role.TOOL and tools[message.tool_call_id or ""] != "ask_user"  # type: ignore[index]
        if data or "source" in message.metadata:
            assert str(message.content).startswith("<untrusted-")


@for_every_context
def test_assembling_twice_gives_the_same_context(inputs: ContextInput) -> None:
    sizes = MessageSizer(TOKENS)
    first = assemble(inputs, sizes=sizes)
    assert assemble(inputs, sizes=sizes) == first == assemble(inputs, sizes=MessageSizer(TOKENS, max_cached=1))


@for_every_context
def test_a_snapshot_reads_back_what_was_sent(inputs: ContextInput) -> None:
    context = assemble_context(inputs)
    snapshot = take_snapshot(context, inputs, step=3, model="scripted:x")
    older = [inputs.goal] if inputs.goal is not None and inputs.goal not in inputs.messages else []
    chain = [*older, *inputs.messages]
    assert set(text_digests(snapshot)) == set(snapshot.texts)
    read = restore_context(strip_texts(snapshot), snapshot.texts, chain)
    assert read.complete
    assert read.system == context.system
    assert list(read.messages) == [to_read_message(message) for message in context.messages]
    assert read.tokens == context.tokens


@st.composite
def _compactions(draw: st.DrawFn, log: Log) -> Compaction:
    """Draw a summary of the conversation up to the end of a unit, and completed items that collapse."""
    units = group_units(log.messages, sizes=MessageSizer(TOKENS))
    ends = [unit.last for unit in units if unit.last is not None]
    if not ends or draw(st.booleans()):
        return NO_COMPACTION
    through = draw(st.one_of(st.none(), st.sampled_from(ends)))
    return Compaction(
        through=through,
        summary="" if through is None else draw(st.text(min_size=1, max_size=40)),
        collapsed=tuple(draw(st.lists(_spans(units), max_size=3))),
    )


@st.composite
def _spans(draw: st.DrawFn, units: Sequence[Unit]) -> CollapsedTask:
    starts = [unit.first for unit in units if unit.first is not None and unit.head.tool_calls] or [0]
    first, last = sorted([draw(st.sampled_from(starts)), draw(st.sampled_from(starts))])
    return CollapsedTask(
        task_id=draw(st.integers(1, 99)),
        title=draw(words),
        conclusion=draw(words),
        start=Boundary(message_sequence_num=first, content_sequence_num=draw(st.integers(0, 1))),
        end=Boundary(message_sequence_num=last, content_sequence_num=draw(st.integers(0, 4))),
    )


def _stored(context: AssembledContext) -> list[Message]:
    return [message for message in context.messages if isinstance(message, Message)]


def _live(inputs: ContextInput, context: AssembledContext) -> list[Message]:
    through = -1 if context.compaction.through is None else context.compaction.through
    return [message for message in inputs.messages if message.sequence is not None and message.sequence > through]


def _newest(context: AssembledContext) -> int:
    """Return the tokens of the last unit that is sent."""
    messages = [each for each in context.sent if each.message.role is not Role.SYSTEM]
    total = 0
    for each in reversed(messages):
        total += each.tokens
        if each.message.role is not Role.TOOL:
            break
    return total
