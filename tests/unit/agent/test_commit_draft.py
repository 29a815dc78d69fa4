"""`CommitDraft`: no content is lost or duplicated."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.run_writer import CommitDraft
from holdfast.domain.ids import InterruptId, TimerId
from holdfast.domain.limits import Usage
from holdfast.domain.step import Step, StepKind, StepState
from tests.builders import text_events, user
from tests.unit.agent.fakes import LEASE

LISTS = ("events", "messages", "consumed", "withdrawn", "cancelled_timers")

numbers = st.lists(st.integers(0, 99), max_size=3)
parts = st.fixed_dictionaries(
    {
        "events": numbers,
        "messages": numbers,
        "consumed": numbers,
        "withdrawn": numbers,
        "cancelled_timers": numbers,
        "steps": st.dictionaries(st.integers(1, 4), st.sampled_from(StepState), max_size=3),
        "values": st.dictionaries(st.sampled_from(["plan", "todo", "state"]), st.integers(), max_size=2),
        "usage": st.none() | st.integers(0, 9),
        "iterations": st.integers(0, 2),
    }
)


def new_draft(parts: dict[str, Any]) -> CommitDraft:
    """Return a draft with these parts."""
    draft = CommitDraft()
    draft.events += [event for number in parts["events"] for event in text_events(str(number), id=f"m{number}")]
    draft.messages += [user(str(number)) for number in parts["messages"]]
    draft.consumed += parts["consumed"]
    draft.withdrawn += [InterruptId(str(number)) for number in parts["withdrawn"]]
    draft.values |= parts["values"]
    draft.cancelled_timers += [TimerId(str(number)) for number in parts["cancelled_timers"]]
    draft.steps |= {number: _step(number, state) for number, state in parts["steps"].items()}
    if parts["usage"] is not None:
        draft.add_usage(Usage(input_tokens=parts["usage"], cost_usd=0.0))
    draft.iterations += parts["iterations"]
    return draft


def _step(number: int, state: StepState) -> Step:
    return Step(number=number, kind=StepKind.TOOL, name="look", key=f"k{number}", state=state)


@given(earlier=parts, later=parts)
def test_an_uncommitted_draft_comes_before_later_content(earlier: dict[str, Any], later: dict[str, Any]) -> None:
    draft = new_draft(later)
    draft.prepend(new_draft(earlier))
    commit, first, second = (each.to_commit(LEASE) for each in (draft, new_draft(earlier), new_draft(later)))
    for name in LISTS:
        assert list(getattr(commit, name)) == [*getattr(first, name), *getattr(second, name)]
    assert {step.number: step.state for step in commit.steps} == {**earlier["steps"], **later["steps"]}
    assert commit.values == {**earlier["values"], **later["values"]}
    assert commit.iterations == earlier["iterations"] + later["iterations"]
    used = [each["usage"] for each in (earlier, later) if each["usage"] is not None]
    assert (None if commit.usage is None else commit.usage.input_tokens) == (sum(used) if used else None)


@given(given=parts)
def test_a_draft_without_content_is_empty_and_no_other_is(given: dict[str, Any]) -> None:
    has_content = given["usage"] is not None or any(given[name] for name in given if name != "usage")
    assert new_draft(given).empty is not has_content


def test_a_draft_has_every_part_of_a_commit() -> None:
    parts_of_a_commit = set(CommitDraft().to_commit(LEASE).__struct_fields__) - {"lease", "move", "number"}
    assert parts_of_a_commit == set(CommitDraft.__slots__)


def test_the_end_of_a_segment_is_the_last_event() -> None:
    draft = CommitDraft()
    draft.events += text_events("x")
    end = text_events("end", id="end")
    assert draft.to_commit(LEASE, end=end).events == [*text_events("x"), *end]
