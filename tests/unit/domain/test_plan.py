from collections.abc import Callable

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.domain import plan
from holdfast.domain.errors import Conflict, HoldfastError, Invalid, NotFound, TooLarge
from holdfast.domain.plan import Boundary, Plan, PlanItem, PlanPriority, PlanStatus, Subtask, SubtaskStatus

HERE = Boundary(message_sequence_num=3, content_sequence_num=0)
LATER = Boundary(message_sequence_num=7, content_sequence_num=1)
DONE = Subtask(title="read", status=SubtaskStatus.DONE)
OPEN = Subtask(title="write")


def planned(*titles: str) -> Plan:
    result = Plan()
    for task_id, title in enumerate(titles, start=1):
        result = plan.create(result, task_id=task_id, title=title)
    return result


def with_subtasks(*subtasks: Subtask) -> Plan:
    return plan.create(Plan(), task_id=1, title="a", subtasks=subtasks)


def titles(of: Plan) -> list[str]:
    return [item.title for item in of.items]


CHANGES: dict[str, Callable[[Plan], Plan]] = {
    "update": lambda of: plan.update(of, 1, title="b"),
    "start": lambda of: plan.start(of, 1, at=HERE),
    "check": lambda of: plan.check(of, 1, subtask=0),
    "complete": lambda of: plan.complete(of, 1, conclusion="done", at=HERE),
    "block": lambda of: plan.block(of, 1, reason="no key"),
    "cancel": lambda of: plan.cancel(of, 1, reason="not wanted"),
}
any_change = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())


def test_a_new_item_is_planned_at_the_end() -> None:
    result = plan.create(planned("a"), task_id=2, title=" b ", description="all of b", plan={"steps": ["one"]})
    assert result.items[1] == PlanItem(
        task_id=2,
        position=1,
        title="b",
        description="all of b",
        status=PlanStatus.PLANNED,
        priority=PlanPriority.MEDIUM,
        plan={"steps": ["one"]},
    )


def test_an_item_put_at_a_position_shifts_the_others() -> None:
    result = plan.create(planned("a", "b"), task_id=3, title="c", position=1)
    assert titles(result) == ["a", "c", "b"]
    assert [item.position for item in result.items] == [0, 1, 2]


@pytest.mark.parametrize("position", [-1, 3])
def test_a_position_outside_the_plan_is_refused(position: int) -> None:
    with pytest.raises(Invalid, match="must be 0 to 2"):
        plan.create(planned("a", "b"), task_id=3, title="c", position=position)


@pytest.mark.parametrize("task_id", [-1, 0, 1, 2])
def test_a_task_id_is_greater_than_all_before_it(task_id: int) -> None:
    with pytest.raises(Invalid, match="greater than 2"):
        plan.create(planned("a", "b"), task_id=task_id, title="c")


@pytest.mark.parametrize("title", ["", " \n"])
def test_an_empty_title_is_refused(title: str) -> None:
    with pytest.raises(Invalid, match="`title` is empty"):
        plan.create(Plan(), task_id=1, title=title)
    with pytest.raises(Invalid, match="`title` is empty"):
        plan.update(planned("a"), 1, title=title)
    with pytest.raises(Invalid, match=r"`subtasks\.title` is empty"):
        plan.create(Plan(), task_id=1, title="a", subtasks=[Subtask(title=title)])


def test_a_text_that_is_too_long_is_rejected() -> None:
    with pytest.raises(TooLarge):
        plan.create(Plan(), task_id=1, title="x" * (plan.MAX_TITLE_CHARS + 1))
    with pytest.raises(TooLarge):
        plan.create(Plan(), task_id=1, title="a", description="x" * (plan.MAX_TEXT_CHARS + 1))
    with pytest.raises(TooLarge):
        plan.create(Plan(), task_id=1, title="a", plan="x" * (plan.MAX_PLAN_CHARS + 1))
    with pytest.raises(TooLarge):
        plan.create(Plan(), task_id=1, title="a", plan=["x" * plan.MAX_PLAN_CHARS])
    with pytest.raises(TooLarge):
        with_subtasks(*[OPEN] * (plan.MAX_SUBTASKS + 1))


def test_only_open_items_count_against_the_limit() -> None:
    full = planned(*["a"] * plan.MAX_OPEN_ITEMS)
    with pytest.raises(Conflict, match="complete or cancel one first"):
        plan.create(full, task_id=plan.MAX_OPEN_ITEMS + 1, title="b")
    freed = plan.cancel(full, 1, reason="not wanted")
    assert titles(plan.create(freed, task_id=plan.MAX_OPEN_ITEMS + 1, title="b"))[-1] == "b"


def test_an_update_changes_only_what_is_given() -> None:
    before = plan.create(Plan(), task_id=1, title="a", description="all", plan="first", subtasks=[OPEN])
    after = plan.update(before, 1, priority=PlanPriority.URGENT)
    assert after.items == (msgspec.structs.replace(before.items[0], priority=PlanPriority.URGENT),)


def test_an_update_changes_every_field_that_is_given() -> None:
    before = plan.create(Plan(), task_id=1, title="a", description="all", plan="first", subtasks=[OPEN])
    (item,) = plan.update(before, 1, title="b", description=None, plan=None, subtasks=[DONE]).items
    assert (item.title, item.description, item.plan, item.subtasks) == ("b", None, None, (DONE,))


@pytest.mark.parametrize(("to", "order"), [(0, "cab"), (1, "acb"), (2, "abc")])
def test_an_update_moves_an_item_among_the_others(to: int, order: str) -> None:
    moved = plan.update(planned("a", "b", "c"), 3, position=to)
    assert "".join(titles(moved)) == order
    assert [item.task_id for item in moved.items if item.title == "c"] == [3]


def test_an_item_cannot_move_past_the_end() -> None:
    with pytest.raises(Invalid, match="must be 0 to 1"):
        plan.update(planned("a", "b"), 1, position=2)


def test_starting_records_the_boundary() -> None:
    (item,) = plan.start(planned("a"), 1, at=HERE).items
    assert (item.status, item.start, item.end) == (PlanStatus.IN_PROGRESS, HERE, None)


def test_starting_another_item_resets_the_first() -> None:
    first, second = plan.start(plan.start(planned("a", "b"), 1, at=HERE), 2, at=LATER).items
    assert (first.status, first.start) == (PlanStatus.PLANNED, HERE)
    assert (second.status, second.start) == (PlanStatus.IN_PROGRESS, LATER)


def test_restarting_records_the_latest_boundary() -> None:
    restarted = plan.start(plan.start(planned("a", "b"), 1, at=HERE), 2, at=HERE)
    assert plan.start(restarted, 1, at=LATER).items[0].start == LATER


def test_starting_an_item_in_progress_changes_nothing() -> None:
    started = plan.start(planned("a"), 1, at=HERE)
    assert plan.start(started, 1, at=LATER) == started


def test_starting_a_blocked_item_clears_its_reason() -> None:
    (item,) = plan.start(plan.block(planned("a"), 1, reason="no key"), 1, at=HERE).items
    assert (item.status, item.reason) == (PlanStatus.IN_PROGRESS, None)


@pytest.mark.parametrize("subtask", [1, "write"])
def test_a_subtask_is_checked_by_index_or_title(subtask: int | str) -> None:
    result = with_subtasks(Subtask(title="read"), OPEN)
    (item,) = plan.check(result, 1, subtask=subtask).items
    assert [each.status for each in item.subtasks] == [SubtaskStatus.PENDING, SubtaskStatus.DONE]


def test_checking_twice_changes_nothing() -> None:
    assert plan.check(with_subtasks(DONE), 1, subtask=0) == with_subtasks(DONE)


@pytest.mark.parametrize("subtask", [-1, 1, "Write", "0"])
def test_an_unknown_subtask_is_not_found(subtask: int | str) -> None:
    with pytest.raises(NotFound):
        plan.check(with_subtasks(OPEN), 1, subtask=subtask)


def test_a_title_that_two_subtasks_have_needs_an_index() -> None:
    with pytest.raises(Invalid, match="use the index"):
        plan.check(with_subtasks(OPEN, OPEN), 1, subtask="write")


def test_completing_records_the_conclusion_and_the_boundary() -> None:
    started = plan.start(with_subtasks(DONE), 1, at=HERE)
    (item,) = plan.complete(started, 1, conclusion=" it works ", at=LATER).items
    assert (item.status, item.conclusion) == (PlanStatus.COMPLETED, "it works")
    assert (item.start, item.end) == (HERE, LATER)


def test_completing_is_refused_while_a_subtask_is_open() -> None:
    with pytest.raises(Conflict, match="open subtasks") as refused:
        plan.complete(with_subtasks(DONE, OPEN), 1, conclusion="done", at=HERE)
    assert refused.value.details["open_subtasks"] == ["write"]


def test_completing_needs_a_conclusion() -> None:
    with pytest.raises(Invalid, match="`conclusion` is empty"):
        plan.complete(planned("a"), 1, conclusion=" ", at=HERE)


def test_completing_a_blocked_item_clears_its_reason() -> None:
    blocked = plan.block(planned("a"), 1, reason="no key")
    assert plan.complete(blocked, 1, conclusion="done", at=HERE).items[0].reason is None


def test_blocking_and_cancelling_keep_the_reason() -> None:
    (blocked,) = plan.block(planned("a"), 1, reason="no key").items
    assert (blocked.status, blocked.reason) == (PlanStatus.BLOCKED, "no key")
    (cancelled,) = plan.cancel(planned("a"), 1, reason="not wanted").items
    assert (cancelled.status, cancelled.reason, cancelled.end) == (PlanStatus.CANCELLED, "not wanted", None)


@pytest.mark.parametrize("rule", [plan.block, plan.cancel])
def test_blocking_and_cancelling_need_a_reason(rule: Callable[..., Plan]) -> None:
    with pytest.raises(Invalid, match="`reason` is empty"):
        rule(planned("a"), 1, reason="")


@any_change
def test_an_unknown_task_is_not_found(change: Callable[[Plan], Plan]) -> None:
    with pytest.raises(NotFound, match="no task 1"):
        change(Plan())


@any_change
@pytest.mark.parametrize("end", ["complete", "cancel"])
def test_an_item_that_has_ended_refuses_every_change(end: str, change: Callable[[Plan], Plan]) -> None:
    ended = CHANGES[end](with_subtasks(DONE))
    with pytest.raises(Conflict, match="can no longer change"):
        change(ended)


@pytest.mark.parametrize(("text", "call_index", "block"), [("", 0, 0), ("", 2, 2), ("I will", 0, 1), (" ", 2, 3)])
def test_a_text_is_one_block_before_the_calls(text: str, call_index: int, block: int) -> None:
    expected = Boundary(message_sequence_num=5, content_sequence_num=block)
    assert plan.boundary(5, text=text, call_index=call_index) == expected


picks = st.integers(0, 5)
positions = st.integers(-1, 4)
words = st.sampled_from(["a", "b", "c", " "])
subtask_lists = st.lists(
    st.builds(Subtask, title=st.sampled_from("ab"), status=st.sampled_from(SubtaskStatus)), max_size=2
)
boundaries = st.builds(Boundary, message_sequence_num=st.integers(0, 99), content_sequence_num=st.integers(0, 9))


class AnyPlan(RuleBasedStateMachine):
    """Every sequence of rules, refused ones included."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = planned("a", "b", "c")
        self.counter = 3
        self.ids: set[int] = set()
        self.ended: dict[int, PlanItem] = {}

    def picked(self, pick: int) -> int:
        ids = [*sorted(item.task_id for item in self.plan.items), self.counter + 1]
        return ids[pick % len(ids)]

    def apply(self, change: Callable[[Plan], Plan]) -> bool:
        before = self.plan
        snapshot = msgspec.json.encode(before)
        try:
            self.plan = change(before)
        except HoldfastError:
            return False
        finally:
            assert msgspec.json.encode(before) == snapshot
        return True

    @rule(title=words, position=st.none() | positions, subtasks=subtask_lists)
    def create(self, title: str, position: int | None, subtasks: list[Subtask]) -> None:
        self.counter += 1
        result = self.apply(
            lambda of: plan.create(of, task_id=self.counter, title=title, position=position, subtasks=subtasks)
        )
        assert not result or plan.find(self.plan, self.counter).position == (
            len(self.plan.items) - 1 if position is None else position
        )

    @rule(pick=picks, position=positions, subtasks=subtask_lists)
    def update(self, pick: int, position: int, subtasks: list[Subtask]) -> None:
        self.apply(lambda of: plan.update(of, self.picked(pick), position=position, subtasks=subtasks))

    @rule(pick=picks, at=boundaries)
    def start(self, pick: int, at: Boundary) -> None:
        if self.apply(lambda of: plan.start(of, self.picked(pick), at=at)):
            assert plan.find(self.plan, self.picked(pick)).status is PlanStatus.IN_PROGRESS

    @rule(pick=picks, subtask=st.integers(-1, 2) | st.sampled_from("abc"))
    def check(self, pick: int, subtask: int | str) -> None:
        self.apply(lambda of: plan.check(of, self.picked(pick), subtask=subtask))

    @rule(pick=picks, conclusion=words, at=boundaries)
    def complete(self, pick: int, conclusion: str, at: Boundary) -> None:
        self.apply(lambda of: plan.complete(of, self.picked(pick), conclusion=conclusion, at=at))

    @rule(pick=picks, reason=words)
    def block(self, pick: int, reason: str) -> None:
        self.apply(lambda of: plan.block(of, self.picked(pick), reason=reason))

    @rule(pick=picks, reason=words)
    def cancel(self, pick: int, reason: str) -> None:
        self.apply(lambda of: plan.cancel(of, self.picked(pick), reason=reason))

    @invariant()
    def at_most_one_is_in_progress(self) -> None:
        active = [item for item in self.plan.items if item.status is PlanStatus.IN_PROGRESS]
        assert len(active) <= 1
        assert all(item.start is not None for item in active)

    @invariant()
    def completed_means_concluded_with_every_subtask_done(self) -> None:
        for item in self.plan.items:
            completed = item.status is PlanStatus.COMPLETED
            assert bool(item.conclusion) is completed
            assert (item.end is not None) is completed
            assert not completed or all(each.status is SubtaskStatus.DONE for each in item.subtasks)

    @invariant()
    def a_reason_is_there_exactly_when_it_is_needed(self) -> None:
        for item in self.plan.items:
            assert bool(item.reason) is (item.status in (PlanStatus.BLOCKED, PlanStatus.CANCELLED))

    @invariant()
    def positions_are_dense_and_ids_unique(self) -> None:
        assert [item.position for item in self.plan.items] == list(range(len(self.plan.items)))
        ids = {item.task_id for item in self.plan.items}
        assert len(ids) == len(self.plan.items)

    @invariant()
    def no_item_is_lost_and_an_ended_one_never_changes(self) -> None:
        now = {item.task_id: msgspec.structs.replace(item, position=0) for item in self.plan.items}
        assert self.ids <= now.keys()
        assert all(now[task_id] == item for task_id, item in self.ended.items())
        self.ids = set(now)
        self.ended = {task_id: item for task_id, item in now.items() if item.status.terminal}

    @invariant()
    def it_reads_back_as_it_was_written(self) -> None:
        assert msgspec.json.decode(msgspec.json.encode(self.plan), type=Plan) == self.plan


AnyPlan.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
TestAnyPlan = AnyPlan.TestCase
