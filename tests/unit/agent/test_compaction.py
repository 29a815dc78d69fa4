"""Compaction: completed items collapse first, then a summary; it stops when it saves nothing."""

from typing import Final

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.agent.context.assembly import ContextInput, assemble
from holdfast.agent.context.compaction import CompactionPlan, SummaryPlan, apply_summary, plan_compaction
from holdfast.agent.context.tokens import MessageSizer
from holdfast.domain import plan as plans
from holdfast.domain.context import NO_COMPACTION, CollapsedTask, Compaction
from holdfast.domain.message import Message, Role
from holdfast.domain.plan import Boundary, Plan, PlanStatus
from holdfast.ports.model import ModelCallPurpose
from tests.unit.agent.builders import RUN, TOKENS, Log, assembled, call, given, texts
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
        return self.log.exchange(call(f"c{self.calls}", tool, **arguments), answer=answer)

    def planned(self, *, window: int, compaction: Compaction = NO_COMPACTION) -> CompactionPlan | None:
        """Plan a compaction of what there is."""
        return _planned(given(self.log, goal=self.goal, window=window, compaction=compaction), self.plan)

    def _at(self, message: Message) -> Boundary:
        return plans.boundary(message.sequence or 0, text="", call_index=0)


def test_completed_items_collapse_into_their_conclusions_without_a_model() -> None:
    worker = Worker()
    for title in ("count the stock", "order the tea"):
        worker.item(title)
    worker.call("look", "still open")
    planned = worker.planned(window=6_000)
    assert isinstance(planned, Compaction)
    sent = assembled(given(worker.log, goal=worker.goal, window=6_000, compaction=planned))
    assert [message.role for message in sent.messages] == [
        Role.USER,
        Role.SYSTEM,
        Role.SYSTEM,
        Role.ASSISTANT,
        Role.TOOL,
    ]
    assert "count the stock: done" in texts(sent)[1]
    assert "order the tea: done" in texts(sent)[2]
    assert planned.tokens_after < planned.tokens_before
    assert not sent.needs_compaction


def test_user_messages_are_kept_when_an_item_collapses() -> None:
    worker = Worker()
    worker.item("count the stock", steering="count the cups as well")
    worker.call("look", "still open")
    planned = worker.planned(window=4_000)
    assert isinstance(planned, Compaction)
    sent = texts(assembled(given(worker.log, goal=worker.goal, compaction=planned)))
    assert "count the cups as well" in sent
    assert not any("what was found there" in text for text in sent)


def test_an_item_that_ends_in_the_newest_unit_does_not_collapse_yet() -> None:
    worker = Worker()
    worker.item("count the stock")
    planned = worker.planned(window=1_500)
    assert isinstance(planned, SummaryPlan)
    assert planned.base.collapsed == ()


def test_a_message_shared_by_two_items_collapses_when_both_are_completed() -> None:
    log = Log()
    goal = log.user("do both")
    log.exchange(call("c1", "plan_start"))
    both = log.exchange(call("c2", "plan_complete"), call("c3", "plan_start"))
    log.exchange(call("c4", "plan_complete"))
    log.exchange(call("c5"))
    first = _collapsed(1, (1, 0), (both.sequence or 0, 0))
    second = _collapsed(2, (both.sequence or 0, 1), (6, 0))
    half = assembled(given(log, goal=goal, compaction=Compaction(collapsed=(first,))))
    assert both in half.messages
    whole = assembled(given(log, goal=goal, compaction=Compaction(collapsed=(first, second))))
    assert [message.role for message in whole.messages] == [Role.USER, Role.SYSTEM, Role.SYSTEM, *_ONE_EXCHANGE]


def test_an_item_that_begins_and_ends_in_one_message_collapses() -> None:
    log = Log()
    goal = log.user("do it")
    log.exchange(call("c1", "plan_start"), call("c2", "plan_complete"))
    log.exchange(call("c3"))
    sent = assembled(given(log, goal=goal, compaction=Compaction(collapsed=(_collapsed(1, (1, 0), (1, 1)),))))
    assert [message.role for message in sent.messages] == [Role.USER, Role.SYSTEM, *_ONE_EXCHANGE]


def test_an_item_that_a_summary_covers_has_no_note_of_its_own() -> None:
    worker = Worker()
    worker.item("count the stock")
    worker.item("order the tea")
    for _ in range(12):
        worker.call("look", LONG)
    planned = worker.planned(window=6_000)
    assert isinstance(planned, SummaryPlan)
    assert [span.task_id for span in planned.base.collapsed] == [1, 2]
    assert any("count the stock: done" in str(message.content) for message in planned.request.messages)
    made = apply_summary(planned, "stock counted, tea ordered", sizes=MessageSizer(TOKENS))
    assert made.collapsed == ()


def test_text_before_the_start_of_an_item_stays_with_the_call_that_started_it() -> None:
    log = Log()
    goal = log.user("do it")
    began = log.exchange(call("c1", "plan_start"), text="First I will count.")
    log.exchange(call("c2", "plan_complete"))
    log.exchange(call("c3"))
    span = _collapsed(1, (began.sequence or 0, 1), (3, 0))
    sent = assembled(given(log, goal=goal, compaction=Compaction(collapsed=(span,))))
    assert began in sent.messages
    assert len(sent.messages) == 6


@pytest.mark.parametrize(("start", "end"), [(3, 4), (1, 3), (1, 99)])
def test_an_item_that_ends_on_another_branch_does_not_collapse(start: int, end: int) -> None:
    log = Log()
    goal = log.user("do it")
    log.exchange(call("c1", "plan_start"), answer=LONG)
    log.skip(1)
    log.exchange(call("c2", "plan_complete"), answer=LONG)
    log.exchange(call("c3"), answer=LONG)
    span = _collapsed(1, (start, 0), (end, 0))
    sent = assembled(given(log, goal=goal, compaction=Compaction(collapsed=(span,))))
    assert [message.id for message in sent.messages] == [message.id for message in log.messages]
    item = plans.create(EMPTY, task_id=1, title="count").items[0]
    done = Plan(items=(replace(item, status=PlanStatus.COMPLETED, start=span.start, end=span.end, conclusion="nine"),))
    planned = _planned(given(log, goal=goal, window=1_500), done)
    assert isinstance(planned, SummaryPlan)
    assert planned.base.collapsed == ()


def test_a_summary_is_requested_when_collapsing_is_not_enough() -> None:
    worker = Worker()
    for _ in range(12):
        worker.call("look", LONG)
    planned = worker.planned(window=6_000)
    assert isinstance(planned, SummaryPlan)
    assert planned.request.purpose is ModelCallPurpose.SUMMARY
    assert planned.request.tools == ()
    assert "untrusted" in planned.request.system
    assert all(not message.tool_calls and message.role is not Role.TOOL for message in planned.request.messages)
    assert "Write the summary now" in str(planned.request.messages[-1].content)


def test_a_summary_replaces_older_messages_but_not_the_goal_of_the_turn() -> None:
    worker = Worker()
    for _ in range(12):
        worker.call("look", LONG)
    planned = worker.planned(window=6_000)
    assert isinstance(planned, SummaryPlan)
    made = apply_summary(planned, "  twelve places were looked at ", sizes=MessageSizer(TOKENS))
    assert (made.summary, made.through, made.failed_tries) == ("twelve places were looked at", planned.through, 0)
    sent = assembled(given(worker.log, goal=worker.goal, window=6_000, compaction=made))
    assert "twelve places were looked at" in texts(sent)[0]
    assert sent.messages[1] == worker.goal
    assert not sent.needs_compaction
    assert sent.tokens["conversation"] + sent.tokens["earlier"] == made.tokens_after


def test_the_previous_summary_is_part_of_the_new_request() -> None:
    worker = Worker()
    for _ in range(12):
        worker.call("look", LONG)
    earlier = Compaction(through=worker.log.messages[4].sequence, summary="it began well")
    planned = worker.planned(window=6_000, compaction=earlier)
    assert isinstance(planned, SummaryPlan)
    assert "it began well" in str(planned.request.messages[0].content)
    made = apply_summary(planned, "all of it, in short", sizes=MessageSizer(TOKENS))
    assert made.summary == "all of it, in short"
    assert (made.through or 0) > (earlier.through or 0)


def test_a_summary_is_cut_to_its_maximum_length() -> None:
    worker = Worker()
    for _ in range(40):
        worker.call("look", LONG)
    planned = worker.planned(window=12_000)
    assert isinstance(planned, SummaryPlan)
    made = apply_summary(planned, "far too much " * 10_000, sizes=MessageSizer(TOKENS))
    assert 0 < TOKENS.count(made.summary) <= planned.max_tokens <= 2_000


def test_characters_that_cannot_be_stored_are_removed_from_a_summary() -> None:
    worker = Worker()
    for _ in range(12):
        worker.call("look", LONG)
    planned = worker.planned(window=6_000)
    assert isinstance(planned, SummaryPlan)
    assert apply_summary(planned, "a\x00b", sizes=MessageSizer(TOKENS)).summary == "a�b"


def test_at_most_half_of_the_context_window_is_kept_after_a_summary() -> None:
    log = Log()
    for number in range(25):
        log.user(f"question {number}")
        log.says(f"answer {number}")
    goal = log.user("the last one")
    what = given(log, goal=goal, whole=False)
    planned = _planned(what, EMPTY, context_window=50)
    assert isinstance(planned, SummaryPlan)
    made = apply_summary(planned, "they talked", sizes=MessageSizer(TOKENS))
    sent = assembled(replace(what, compaction=made))
    assert len(sent.messages) == 1 + 25
    assert not sent.needs_compaction


def test_a_conversation_that_is_too_long_for_one_summary_is_summarised_from_its_beginning() -> None:
    worker = Worker()
    for _ in range(60):
        worker.call("look", LONG)
    planned = worker.planned(window=3_000)
    assert isinstance(planned, SummaryPlan)
    assert sum(MessageSizer(TOKENS).count_message(message) for message in planned.request.messages) <= 3_000
    assert 0 < planned.through < (worker.log.messages[-1].sequence or 0) // 2


def test_attachments_and_long_results_are_abbreviated_in_the_summary_request() -> None:
    worker = Worker()
    worker.call("look", "x" * 50_000)
    for _ in range(6):
        worker.call("look", LONG)
    planned = worker.planned(window=20_000)
    assert isinstance(planned, SummaryPlan)
    told = str(planned.request.messages[1].content)
    assert "[called look {}]" in told
    assert "characters are left out here" in told
    assert len(told) < 3_000


@pytest.mark.parametrize("summary", ["", "  ", LONG * 100], ids=["empty", "blank", "longer than what it stands for"])
def test_a_summary_that_frees_nothing_is_a_failed_try(summary: str) -> None:
    log = Log()
    log.user("hello")
    log.says("hello")
    goal = log.user("go on " * 60)
    planned = _planned(given(log, goal=goal, window=1_000, whole=False), EMPTY, context_window=2)
    assert isinstance(planned, SummaryPlan)
    made = apply_summary(planned, summary, sizes=MessageSizer(TOKENS))
    assert (made.failed_tries, made.through, made.summary) == (1, None, "")


def test_compaction_stops_after_two_failed_tries_until_the_conversation_grows() -> None:
    worker = Worker()
    for _ in range(8):
        worker.call("look", LONG)
    compaction = Compaction()
    for tries in (1, 2):
        planned = worker.planned(window=4_000, compaction=compaction)
        assert isinstance(planned, SummaryPlan)
        compaction = apply_summary(planned, "", sizes=MessageSizer(TOKENS))
        assert compaction.failed_tries == tries
    assert worker.planned(window=4_000, compaction=compaction) is None
    assert not assembled(given(worker.log, goal=worker.goal, window=4_000, compaction=compaction)).needs_compaction
    for _ in range(4):
        worker.call("look", LONG)
    assert assembled(given(worker.log, goal=worker.goal, window=4_000, compaction=compaction)).needs_compaction
    again = worker.planned(window=4_000, compaction=compaction)
    assert isinstance(again, SummaryPlan)
    assert apply_summary(again, "short", sizes=MessageSizer(TOKENS)).failed_tries == 0


def test_a_single_message_is_not_compacted() -> None:
    log = Log()
    goal = log.user(LONG * 10)
    assert _planned(given(log, goal=goal, window=1_000), EMPTY) is None


@settings(max_examples=50)
@for_all(conversations(), st.integers(300, 20_000), st.text(max_size=300), st.booleans())
def test_a_compaction_makes_the_conversation_shorter_or_is_a_failed_try(
    drawn: tuple[Log, Message | None], window: int, summary: str, whole: bool
) -> None:
    log, goal = drawn
    what = given(log, goal=goal, window=window, whole=whole)
    match _planned(what, EMPTY, context_window=8):
        case SummaryPlan() as planned:
            made = apply_summary(planned, summary, sizes=MessageSizer(TOKENS))
            if made.failed_tries == 0:
                assert _length(replace(what, compaction=made)) < _length(what)
                assert made.tokens_after == _length(replace(what, compaction=made)) < made.tokens_before
            else:
                assert (made.through, made.failed_tries) == (None, 1)
        case planned:
            assert planned is None


_ONE_EXCHANGE: Final = (Role.ASSISTANT, Role.TOOL)


def _planned(what: ContextInput, plan: Plan, *, context_window: int = 50) -> CompactionPlan | None:
    return plan_compaction(what, plan=plan, run_id=RUN, context_window=context_window, sizes=MessageSizer(TOKENS))


def _length(what: ContextInput) -> int:
    """Return the tokens of a conversation that is sent whole."""
    sent = assemble(replace(what, window=1_000_000, whole=True), sizes=MessageSizer(TOKENS))
    return sent.tokens["conversation"] + sent.tokens["earlier"]


def _collapsed(task_id: int, start: tuple[int, int], end: tuple[int, int]) -> CollapsedTask:
    ends = [Boundary(message_sequence_num=message, content_sequence_num=block) for message, block in (start, end)]
    return CollapsedTask(task_id=task_id, title="count", conclusion="there are nine", start=ends[0], end=ends[1])
