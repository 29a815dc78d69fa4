"""Compaction: completed items collapse first, then a summary; it stops when it saves nothing."""

from typing import Final

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.agent.context.assembly import ContextInput, assemble, context_budget
from holdfast.agent.context.compaction import CompactionPlan, SummaryPlan, apply_summary, plan_compaction
from holdfast.agent.context.tokens import MessageSizer
from holdfast.domain import plan as plans
from holdfast.domain.context import NO_COMPACTION, CollapsedTask, Compaction
from holdfast.domain.message import Message, Role
from holdfast.domain.plan import Boundary, Plan, PlanStatus
from holdfast.ports.model import ModelCallPurpose
from tests.unit.agent.builders import RUN, TOKENS, Log, assemble_context, call, context_input, texts
from tests.unit.agent.conversations import conversations

LONG: Final = "what was found there " * 60
EMPTY: Final = Plan()


class Worker:
    """A run that works on the items of a plan, one after the other."""

    def __init__(self) -> None:
        self.log = Log()
        self.goal = self.log.user("do all of it")
        self.plan = EMPTY
        self.calls = 0

    def item(self, title: str, *, rounds: int = 3, steering: str | None = None) -> None:
        """Begin an item, work on it and complete it."""
        task_id = len(self.plan.items) + 1
        self.plan = plans.create(self.plan, task_id=task_id, title=title)
        self.plan = plans.start(self.plan, task_id, at=self._at(self.call("plan_start", "ok", task_id=task_id)))
        for _ in range(rounds):
            self.call("look", LONG)
        if steering is not None:
            self.log.user(steering)
        done = self._at(self.call("plan_complete", "ok", task_id=task_id, conclusion=f"{title}: done"))
        self.plan = plans.complete(self.plan, task_id, conclusion=f"{title}: done", at=done)

    def call(self, tool: str, answer: str, **arguments: object) -> Message:
        """Make one call."""
        self.calls += 1
        return self.log.exchange(call(f"c{self.calls}", tool, **arguments), result=answer)

    def plan_compaction(self, *, window: int, compaction: Compaction = NO_COMPACTION) -> CompactionPlan | None:
        """Plan a compaction of the current conversation."""
        return _plan_compaction(
            context_input(self.log, goal=self.goal, window=window, compaction=compaction), self.plan
        )

    def _at(self, message: Message) -> Boundary:
        return plans.boundary(message.sequence or 0, text="", call_index=0)


def test_completed_items_collapse_into_their_conclusions_without_a_model() -> None:
    worker = Worker()
    for title in ("count the stock", "order the tea"):
        worker.item(title)
    worker.call("look", "still open")
    compaction_plan = worker.plan_compaction(window=6_000)
    assert isinstance(compaction_plan, Compaction)
    context = assemble_context(context_input(worker.log, goal=worker.goal, window=6_000, compaction=compaction_plan))
    assert [message.role for message in context.messages] == [
        Role.USER,
        Role.SYSTEM,
        Role.SYSTEM,
        Role.ASSISTANT,
        Role.TOOL,
    ]
    assert "count the stock: done" in texts(context)[1]
    assert "order the tea: done" in texts(context)[2]
    assert compaction_plan.tokens_after < compaction_plan.tokens_before
    assert not context.needs_compaction


def test_user_messages_are_kept_when_an_item_collapses() -> None:
    worker = Worker()
    worker.item("count the stock", steering="count the cups as well")
    worker.call("look", "still open")
    compaction_plan = worker.plan_compaction(window=4_000)
    assert isinstance(compaction_plan, Compaction)
    context = texts(assemble_context(context_input(worker.log, goal=worker.goal, compaction=compaction_plan)))
    assert "count the cups as well" in context
    assert not any("what was found there" in text for text in context)


def test_an_item_that_ends_in_the_newest_unit_does_not_collapse_yet() -> None:
    worker = Worker()
    worker.item("count the stock")
    compaction_plan = worker.plan_compaction(window=1_500)
    assert isinstance(compaction_plan, SummaryPlan)
    assert compaction_plan.base.collapsed == ()


def test_a_message_shared_by_two_items_collapses_when_both_are_completed() -> None:
    log = Log()
    goal = log.user("do both")
    log.exchange(call("c1", "plan_start"))
    shared_message = log.exchange(call("c2", "plan_complete"), call("c3", "plan_start"))
    log.exchange(call("c4", "plan_complete"))
    log.exchange(call("c5"))
    first = _collapsed_task(1, (1, 0), (shared_message.sequence or 0, 0))
    second = _collapsed_task(2, (shared_message.sequence or 0, 1), (6, 0))
    half = assemble_context(context_input(log, goal=goal, compaction=Compaction(collapsed=(first,))))
    assert shared_message in half.messages
    collapsed_context = assemble_context(
        context_input(log, goal=goal, compaction=Compaction(collapsed=(first, second)))
    )
    assert [message.role for message in collapsed_context.messages] == [
        Role.USER,
        Role.SYSTEM,
        Role.SYSTEM,
        *_ONE_EXCHANGE,
    ]


def test_an_item_that_begins_and_ends_in_one_message_collapses() -> None:
    log = Log()
    goal = log.user("do it")
    log.exchange(call("c1", "plan_start"), call("c2", "plan_complete"))
    log.exchange(call("c3"))
    context = assemble_context(
        context_input(log, goal=goal, compaction=Compaction(collapsed=(_collapsed_task(1, (1, 0), (1, 1)),)))
    )
    assert [message.role for message in context.messages] == [Role.USER, Role.SYSTEM, *_ONE_EXCHANGE]


def test_an_item_that_a_summary_covers_has_no_note_of_its_own() -> None:
    worker = Worker()
    worker.item("count the stock")
    worker.item("order the tea")
    for _ in range(12):
        worker.call("look", LONG)
    compaction_plan = worker.plan_compaction(window=6_000)
    assert isinstance(compaction_plan, SummaryPlan)
    assert [span.task_id for span in compaction_plan.base.collapsed] == [1, 2]
    assert any("count the stock: done" in str(message.content) for message in compaction_plan.request.messages)
    compacted = apply_summary(compaction_plan, "stock counted, tea ordered", sizes=MessageSizer(TOKENS))
    assert compacted.collapsed == ()


def test_text_before_the_start_of_an_item_stays_with_the_call_that_started_it() -> None:
    log = Log()
    goal = log.user("do it")
    began = log.exchange(call("c1", "plan_start"), text="First I will count.")
    log.exchange(call("c2", "plan_complete"))
    log.exchange(call("c3"))
    span = _collapsed_task(1, (began.sequence or 0, 1), (3, 0))
    context = assemble_context(context_input(log, goal=goal, compaction=Compaction(collapsed=(span,))))
    assert began in context.messages
    assert len(context.messages) == 6


@pytest.mark.parametrize(("start", "end"), [(3, 4), (1, 3), (1, 99)])
def test_an_item_that_ends_on_another_branch_does_not_collapse(start: int, end: int) -> None:
    log = Log()
    goal = log.user("do it")
    log.exchange(call("c1", "plan_start"), result=LONG)
    log.skip(1)
    log.exchange(call("c2", "plan_complete"), result=LONG)
    log.exchange(call("c3"), result=LONG)
    span = _collapsed_task(1, (start, 0), (end, 0))
    context = assemble_context(context_input(log, goal=goal, compaction=Compaction(collapsed=(span,))))
    assert [message.id for message in context.messages] == [message.id for message in log.messages]
    item = plans.create(EMPTY, task_id=1, title="count").items[0]
    done = Plan(items=(replace(item, status=PlanStatus.COMPLETED, start=span.start, end=span.end, conclusion="nine"),))
    compaction_plan = _plan_compaction(context_input(log, goal=goal, window=1_500), done)
    assert isinstance(compaction_plan, SummaryPlan)
    assert compaction_plan.base.collapsed == ()


def test_a_summary_is_requested_when_collapsing_is_not_enough() -> None:
    worker = Worker()
    for _ in range(12):
        worker.call("look", LONG)
    compaction_plan = worker.plan_compaction(window=6_000)
    assert isinstance(compaction_plan, SummaryPlan)
    assert compaction_plan.request.purpose is ModelCallPurpose.SUMMARY
    assert compaction_plan.request.tools == ()
    assert "untrusted" in compaction_plan.request.system
    assert all(not message.tool_calls and message.role is not Role.TOOL for message in compaction_plan.request.messages)
    assert "Write the summary now" in str(compaction_plan.request.messages[-1].content)


def test_a_summary_replaces_older_messages_but_not_the_goal_of_the_turn() -> None:
    worker = Worker()
    for _ in range(12):
        worker.call("look", LONG)
    compaction_plan = worker.plan_compaction(window=6_000)
    assert isinstance(compaction_plan, SummaryPlan)
    compacted = apply_summary(compaction_plan, "  twelve places were looked at ", sizes=MessageSizer(TOKENS))
    assert (compacted.summary, compacted.through, compacted.failed_tries) == (
        "twelve places were looked at",
        compaction_plan.through,
        0,
    )
    context = assemble_context(context_input(worker.log, goal=worker.goal, window=6_000, compaction=compacted))
    assert "twelve places were looked at" in texts(context)[0]
    assert context.messages[1] == worker.goal
    assert not context.needs_compaction
    assert context.tokens["conversation"] + context.tokens["earlier"] == compacted.tokens_after


def test_the_previous_summary_is_part_of_the_new_request() -> None:
    worker = Worker()
    for _ in range(12):
        worker.call("look", LONG)
    earlier = Compaction(through=worker.log.messages[4].sequence, summary="it began well")
    compaction_plan = worker.plan_compaction(window=6_000, compaction=earlier)
    assert isinstance(compaction_plan, SummaryPlan)
    assert "it began well" in str(compaction_plan.request.messages[0].content)
    compacted = apply_summary(compaction_plan, "all of it, in short", sizes=MessageSizer(TOKENS))
    assert compacted.summary == "all of it, in short"
    assert (compacted.through or 0) > (earlier.through or 0)


def test_a_summary_is_cut_to_its_maximum_length() -> None:
    worker = Worker()
    for _ in range(40):
        worker.call("look", LONG)
    compaction_plan = worker.plan_compaction(window=12_000)
    assert isinstance(compaction_plan, SummaryPlan)
    compacted = apply_summary(compaction_plan, "far too much " * 10_000, sizes=MessageSizer(TOKENS))
    assert 0 < TOKENS.count(compacted.summary) <= compaction_plan.max_tokens <= 2_000


def test_characters_that_cannot_be_stored_are_removed_from_a_summary() -> None:
    worker = Worker()
    for _ in range(12):
        worker.call("look", LONG)
    compaction_plan = worker.plan_compaction(window=6_000)
    assert isinstance(compaction_plan, SummaryPlan)
    assert apply_summary(compaction_plan, "a\x00b", sizes=MessageSizer(TOKENS)).summary == "a�b"


def test_a_summary_leaves_as_many_messages_as_the_context_window() -> None:
    log = Log()
    for number in range(25):
        log.user(f"question {number}")
        log.says(f"answer {number}")
    goal = log.user("the last one")
    inputs = context_input(log, goal=goal, whole=False)
    compaction_plan = _plan_compaction(inputs, EMPTY, context_window=20)
    assert isinstance(compaction_plan, SummaryPlan)
    compacted = apply_summary(compaction_plan, "they talked", sizes=MessageSizer(TOKENS))
    context = assemble_context(replace(inputs, compaction=compacted))
    assert len(context.messages) == 1 + 20
    assert not context.needs_compaction


def test_a_conversation_that_is_too_long_for_one_summary_is_summarised_from_its_beginning() -> None:
    worker = Worker()
    for _ in range(60):
        worker.call("look", LONG)
    compaction_plan = worker.plan_compaction(window=3_000)
    assert isinstance(compaction_plan, SummaryPlan)
    assert sum(MessageSizer(TOKENS).count_message(message) for message in compaction_plan.request.messages) <= 3_000
    assert 0 < compaction_plan.through < (worker.log.messages[-1].sequence or 0) // 2


def test_attachments_and_long_results_are_abbreviated_in_the_summary_request() -> None:
    worker = Worker()
    worker.call("look", "x" * 50_000)
    for _ in range(6):
        worker.call("look", LONG)
    compaction_plan = worker.plan_compaction(window=20_000)
    assert isinstance(compaction_plan, SummaryPlan)
    text = str(compaction_plan.request.messages[1].content)
    assert "[called look {}]" in text
    assert "characters are left out here" in text
    assert len(text) < 3_000


@pytest.mark.parametrize("summary", ["", "  ", LONG * 100], ids=["empty", "blank", "longer than what it stands for"])
def test_a_summary_that_frees_nothing_is_a_failed_try(summary: str) -> None:
    log = Log()
    log.user("hello")
    log.says("hello")
    goal = log.user("go on " * 60)
    compaction_plan = _plan_compaction(context_input(log, goal=goal, window=1_000), EMPTY, context_window=2)
    assert isinstance(compaction_plan, SummaryPlan)
    compacted = apply_summary(compaction_plan, summary, sizes=MessageSizer(TOKENS))
    assert (compacted.failed_tries, compacted.through, compacted.summary) == (1, None, "")


def test_a_summary_in_place_of_messages_that_are_not_sent_may_be_longer_than_those_that_are() -> None:
    log = Log()
    log.user("hello")
    log.says("hello")
    goal = log.user("go on")
    inputs = context_input(log, goal=goal, window=1_000, whole=False)
    compaction_plan = _plan_compaction(inputs, EMPTY, context_window=1)
    assert isinstance(compaction_plan, SummaryPlan)
    compacted = apply_summary(compaction_plan, "they talked about the weather " * 10, sizes=MessageSizer(TOKENS))
    assert (compacted.failed_tries, compacted.gap) == (0, True)
    context = assemble_context(replace(inputs, compaction=compacted))
    assert "they talked about the weather" in texts(context)[0]
    assert "Older messages of this conversation are not shown" in texts(context)[0]
    assert not context.needs_compaction


def test_compaction_stops_after_two_failed_tries_until_the_conversation_grows() -> None:
    worker = Worker()
    for _ in range(8):
        worker.call("look", LONG)
    compaction = Compaction()
    for tries in (1, 2):
        compaction_plan = worker.plan_compaction(window=4_000, compaction=compaction)
        assert isinstance(compaction_plan, SummaryPlan)
        compaction = apply_summary(compaction_plan, "", sizes=MessageSizer(TOKENS))
        assert compaction.failed_tries == tries
    assert worker.plan_compaction(window=4_000, compaction=compaction) is None
    assert not assemble_context(
        context_input(worker.log, goal=worker.goal, window=4_000, compaction=compaction)
    ).needs_compaction
    for _ in range(4):
        worker.call("look", LONG)
    assert assemble_context(
        context_input(worker.log, goal=worker.goal, window=4_000, compaction=compaction)
    ).needs_compaction
    second_plan = worker.plan_compaction(window=4_000, compaction=compaction)
    assert isinstance(second_plan, SummaryPlan)
    assert apply_summary(second_plan, "short", sizes=MessageSizer(TOKENS)).failed_tries == 0


def test_a_single_message_is_not_compacted() -> None:
    log = Log()
    goal = log.user(LONG * 10)
    assert _plan_compaction(context_input(log, goal=goal, window=1_000), EMPTY) is None


@settings(max_examples=50)
@for_all(conversations(), st.integers(300, 20_000), st.text(max_size=300), st.booleans())
def test_a_compaction_makes_the_conversation_shorter_or_complete_or_is_a_failed_try(
    conversation: tuple[Log, Message | None], window: int, summary: str, whole: bool
) -> None:
    log, goal = conversation
    inputs = context_input(log, goal=goal, window=window, whole=whole)
    match _plan_compaction(inputs, EMPTY, context_window=8):
        case SummaryPlan() as compaction_plan:
            compacted = apply_summary(compaction_plan, summary, sizes=MessageSizer(TOKENS))
            if compacted.failed_tries == 0:
                length = _length(replace(inputs, compaction=compacted))
                assert compacted.tokens_after == length
                fits = length <= context_budget(inputs, sizes=MessageSizer(TOKENS)).conversation
                assert length < _length(inputs) or (fits and not whole)
                assert compacted.gap is not whole
            else:
                assert (compacted.through, compacted.failed_tries) == (None, 1)
        case compaction_plan:
            assert compaction_plan is None


_ONE_EXCHANGE: Final = (Role.ASSISTANT, Role.TOOL)


def _plan_compaction(inputs: ContextInput, plan: Plan, *, context_window: int = 50) -> CompactionPlan | None:
    return plan_compaction(inputs, plan=plan, run_id=RUN, context_window=context_window, sizes=MessageSizer(TOKENS))


def _length(inputs: ContextInput) -> int:
    """Return the tokens of a conversation that is sent whole."""
    context = assemble(replace(inputs, window=1_000_000, whole=True), sizes=MessageSizer(TOKENS))
    return context.tokens["conversation"] + context.tokens["earlier"]


def _collapsed_task(task_id: int, start: tuple[int, int], end: tuple[int, int]) -> CollapsedTask:
    boundaries = [Boundary(message_sequence_num=message, content_sequence_num=block) for message, block in (start, end)]
    return CollapsedTask(
        task_id=task_id, title="count", conclusion="there are nine", start=boundaries[0], end=boundaries[1]
    )
