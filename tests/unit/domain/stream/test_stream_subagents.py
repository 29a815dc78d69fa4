"""What belongs to a sub-agent is tagged as its owner's, and ends with it."""

import pytest
from msgspec.structs import replace

from holdfast.domain.events import (
    ActivityDelta,
    Custom,
    Event,
    StepFinished,
    StepStarted,
    SubagentError,
    SubagentFinished,
)
from holdfast.domain.events.input import (
    Cancelled,
    Interrupt,
    Interrupted,
    Outcome,
    Succeeded,
)
from holdfast.domain.events.subagents import SubagentSuspended
from holdfast.domain.ids import InterruptId, MessageId, RunId, ToolCallId
from holdfast.domain.stream import Stream
from tests.unit.domain.stream.said import (
    FINISHED,
    S,
    U,
    call,
    call_end,
    content,
    end,
    fed,
    start,
    subagent,
)


@pytest.mark.parametrize(
    ("outcome", "ending"),
    [
        (Succeeded(), SubagentFinished(subagent_run_id=S)),
        (
            Succeeded(pending_tool_call_ids=[ToolCallId("c")]),
            SubagentFinished(subagent_run_id=S, outcome=SubagentSuspended()),
        ),
        (
            Interrupted(interrupts=[Interrupt(id=InterruptId("i"), reason="why")]),
            SubagentFinished(subagent_run_id=S, outcome=SubagentSuspended()),
        ),
        (
            Cancelled(),
            SubagentError(subagent_run_id=S, message="the run was cancelled", code="CANCELLED"),
        ),
    ],
    ids=["success", "pending", "interrupt", "cancelled"],
)
def test_a_subagent_ends_as_its_segment_does(stream: Stream, outcome: Outcome, ending: Event) -> None:
    fed(stream, subagent(S))
    assert fed(stream, replace(FINISHED, outcome=outcome))[0] == ending


def test_subagents_end_youngest_first(stream: Stream) -> None:
    fed(stream, subagent(S), subagent(U, S))
    assert fed(stream, FINISHED)[:2] == [
        SubagentFinished(subagent_run_id=U),
        SubagentFinished(subagent_run_id=S),
    ]


def test_a_tool_call_of_a_subagent_is_in_a_message_of_that_subagent(stream: Stream) -> None:
    fed(stream, subagent(S), start("m", S), start("n"))
    assert fed(stream, call("c", owner=S)) == [call("c", "m", S)]


def test_a_tool_call_follows_its_message_to_the_new_id_and_the_owner(stream: Stream) -> None:
    fed(stream, subagent(S), start("m"), end("m"), start("m", S))
    assert fed(stream, call("c", "m")) == [call("c", "m-2", S)]


def test_a_step_is_known_by_its_name_and_owner(stream: Stream) -> None:
    step, finish = StepStarted(step_name="x"), StepFinished(step_name="x")
    theirs = replace(step, subagent_run_id=S)
    fed(stream, subagent(S))
    assert fed(stream, step, step, theirs, finish, finish) == [step, theirs, finish]


def test_what_is_said_of_a_thing_has_the_tag_of_its_owner(stream: Stream) -> None:
    fed(stream, subagent(S), subagent(U), start("m", S), start("n"))
    assert fed(stream, content("m", "x", U), content("m", "y"), content("n", "z", S), end("m")) == [
        content("m", "x", S),
        content("m", "y", S),
        content("n", "z"),
        end("m", S),
    ]


def test_the_tag_of_an_unknown_subagent_is_left_out(stream: Stream) -> None:
    custom = Custom(name="n", value=1)
    assert fed(stream, replace(custom, subagent_run_id=S), start("m", S)) == [custom, start("m")]
    assert fed(stream, subagent(U, S)) == [subagent(U)]


def test_what_only_continues_has_no_tag_of_its_own(stream: Stream) -> None:
    delta = ActivityDelta(message_id=MessageId("a"), activity_type="t", patch=[])
    fed(stream, subagent(S))
    assert fed(stream, replace(delta, subagent_run_id=S)) == [delta]


def test_a_subagent_that_ends_ends_its_work(stream: Stream) -> None:
    fed(stream, subagent(S), start("m", S), start("n"), call("c", "m", S))
    fed(stream, StepStarted(step_name="x", subagent_run_id=S))
    assert fed(stream, SubagentError(subagent_run_id=S, message="no")) == [
        end("m", S),
        call_end("c", S),
        StepFinished(step_name="x", subagent_run_id=S),
        SubagentError(subagent_run_id=S, message="no"),
    ]
    assert fed(stream, SubagentFinished(subagent_run_id=S)) == []


def test_a_subagent_id_is_never_used_again(stream: Stream) -> None:
    again = RunId("s-2")
    fed(stream, subagent(S), SubagentFinished(subagent_run_id=S), FINISHED)
    assert fed(stream, subagent(S), start("m", S), SubagentFinished(subagent_run_id=S))[1:] == [
        subagent(again),
        start("m", again),
        end("m", again),
        SubagentFinished(subagent_run_id=again),
    ]


def test_a_suspended_subagent_goes_on_as_itself_in_a_later_segment(stream: Stream) -> None:
    asked = Interrupted(interrupts=[Interrupt(id=InterruptId("i"), reason="why")])
    fed(stream, subagent(S), replace(FINISHED, outcome=asked))
    assert fed(stream, subagent(S))[-1] == subagent(S)


def test_a_suspended_subagent_does_not_go_on_in_the_same_segment(stream: Stream) -> None:
    fed(stream, subagent(S), SubagentFinished(subagent_run_id=S, outcome=SubagentSuspended()))
    assert fed(stream, subagent(S)) == [subagent(RunId("s-2"))]
