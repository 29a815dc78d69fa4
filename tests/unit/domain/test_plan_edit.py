"""Edits of a plan by a person."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Conflict, HoldfastError, Invalid, NotFound
from holdfast.domain.instant import Instant
from holdfast.domain.plan import Boundary, Plan, PlanStatus, complete, create, find, start
from holdfast.domain.plan_edit import (
    AddPlanItem,
    ChangePlanItem,
    NewPlanItem,
    NewSubtask,
    PlanEdit,
    PlanItemPatch,
    apply_edit,
    apply_edits,
    check_plan_edit,
)

AT = Boundary(message_sequence_num=1, content_sequence_num=0)
TWO = create(create(Plan(), task_id=1, title="bake"), task_id=2, title="eat")


THERE = Boundary(message_sequence_num=4, content_sequence_num=2)
EARLIER, NOW = Instant("2026-01-31T11:00:00.000Z"), Instant("2026-01-31T12:00:00.000Z")


def change(task_id: int = 1, /, **patch: object) -> ChangePlanItem:
    return ChangePlanItem(task_id=task_id, patch=msgspec.convert(patch, PlanItemPatch), at=THERE, edited_at=NOW)


def test_an_item_is_added_at_its_position() -> None:
    new = NewPlanItem(title=" mix ", position=1, subtasks=[NewSubtask(title="flour")], plan={"a": 1})
    plan = apply_edit(TWO, AddPlanItem(item=new, task_id=3))
    assert [(item.task_id, item.title, item.position) for item in plan.items] == [
        (1, "bake", 0),
        (3, "mix", 1),
        (2, "eat", 2),
    ]
    assert (plan.items[1].plan, [sub.title for sub in plan.items[1].subtasks]) == ({"a": 1}, ["flour"])


def test_absent_fields_stay() -> None:
    plan = apply_edit(TWO, change(title="fry"))
    assert plan == msgspec.structs.replace(
        TWO, items=(msgspec.structs.replace(TWO.items[0], title="fry"), TWO.items[1])
    )


@pytest.mark.parametrize(
    ("patch", "status", "end", "ended_at"),
    [
        ({"status": "in_progress"}, PlanStatus.IN_PROGRESS, None, None),
        ({"status": "blocked", "reason": "no oven"}, PlanStatus.BLOCKED, None, None),
        ({"status": "completed", "conclusion": "a cake"}, PlanStatus.COMPLETED, THERE, NOW),
        ({"status": "cancelled", "reason": "not hungry"}, PlanStatus.CANCELLED, None, NOW),
        ({"status": "planned"}, PlanStatus.PLANNED, None, None),
    ],
)
def test_an_item_completed_by_a_person_ends_where_the_edit_was_made(
    patch: dict[str, str], status: PlanStatus, end: Boundary | None, ended_at: Instant | None
) -> None:
    item = find(apply_edit(start(TWO, 1, at=AT, now=EARLIER), change(**patch)), 1)
    assert (item.status, item.start, item.end) == (status, AT, end)
    assert (item.started_at, item.ended_at) == (EARLIER, ended_at)


def test_an_item_started_by_a_person_starts_where_the_edit_was_made() -> None:
    plan = apply_edit(start(TWO, 1, at=AT, now=EARLIER), change(2, status="in_progress"))
    assert [(item.status, item.start, item.started_at) for item in plan.items] == [
        (PlanStatus.PLANNED, AT, EARLIER),
        (PlanStatus.IN_PROGRESS, THERE, NOW),
    ]


@pytest.mark.parametrize(
    "patch",
    [
        {},
        {"status": "completed"},
        {"status": "blocked"},
        {"status": "cancelled", "conclusion": "x"},
        {"conclusion": "x"},
        {"reason": "x"},
        {"status": "planned", "reason": "x"},
    ],
)
def test_an_inconsistent_patch_is_rejected(patch: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        check_plan_edit(change(**patch))


def test_the_rules_of_a_plan_hold_for_people_too() -> None:
    done = complete(TWO, 1, conclusion="a cake", at=AT)
    with pytest.raises(Conflict):
        apply_edit(done, change(title="fry"))
    with pytest.raises(Conflict):
        apply_edit(done, change(status="planned"))
    with pytest.raises(NotFound):
        apply_edit(TWO, change(9, title="fry"))
    with pytest.raises(Conflict):
        apply_edit(TWO, change(subtasks=[{"title": "mix"}], status="completed", conclusion="x"))


def test_edits_that_no_longer_apply_are_skipped() -> None:
    plan = apply_edits(TWO, [change(9, title="x"), change(2, title="drink"), change(1, position=7)])
    assert [item.title for item in plan.items] == ["bake", "drink"]


PATCHES = st.fixed_dictionaries(
    {},
    optional={
        "title": st.text(max_size=5),
        "description": st.none() | st.text(max_size=5),
        "position": st.integers(0, 3),
        "plan": st.none() | st.text(max_size=3) | st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
        "status": st.sampled_from([str(status) for status in PlanStatus]),
        "conclusion": st.text(max_size=3),
        "reason": st.text(max_size=3),
    },
)


@given(st.lists(PATCHES, max_size=5))
def test_an_edit_round_trips_and_keeps_the_plan_valid(patches: list[dict[str, object]]) -> None:
    plan = TWO
    for patch in patches:
        edit = change(**patch)
        assert msgspec.convert(msgspec.to_builtins(edit), PlanEdit) == edit
        try:
            check_plan_edit(edit)
            plan = apply_edit(plan, edit)
        except HoldfastError:
            continue
    assert [item.position for item in plan.items] == [0, 1]
    assert sum(item.status is PlanStatus.IN_PROGRESS for item in plan.items) <= 1
