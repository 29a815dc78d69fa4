"""Events of a sub-agent carry its tag, and end with it."""

import pytest
from msgspec.structs import replace

from holdfast.domain.events import (
    ActivityDelta,
    Custom,
    Event,
    MessagesSnapshot,
    ReasoningEnd,
    ReasoningMessageStart,
    ReasoningStart,
    StepFinished,
    StepStarted,
    SubagentError,
    SubagentFinished,
    SubagentSuspended,
)
from holdfast.domain.events.messages import (
    AgUiInterrupt,
    AgUiMessage,
    AgUiToolCall,
    AssistantMessage,
    CancelledOutcome,
    FunctionCall,
    InterruptOutcome,
    ReasoningMessage,
    RunOutcome,
    SuccessOutcome,
)
from holdfast.domain.ids import InterruptId, MessageId, RunId, ToolCallId
from holdfast.domain.stream import StreamNormaliser
from tests.unit.domain.stream.stream_events import (
    FINISHED,
    NOW,
    S,
    U,
    args,
    call,
    call_end,
    content,
    end,
    feed_all,
    result,
    start,
    subagent,
)


@pytest.mark.parametrize(
    ("outcome", "ending"),
    [
        (SuccessOutcome(), SubagentFinished(subagent_run_id=S)),
        (
            SuccessOutcome(pending_tool_call_ids=[ToolCallId("c")]),
            SubagentFinished(subagent_run_id=S, outcome=SubagentSuspended()),
        ),
        (
            InterruptOutcome(interrupts=[AgUiInterrupt(id=InterruptId("i"), reason="why")]),
            SubagentFinished(subagent_run_id=S, outcome=SubagentSuspended()),
        ),
        (
            CancelledOutcome(),
            SubagentError(subagent_run_id=S, message="the run was cancelled", code="CANCELLED"),
        ),
    ],
    ids=["success", "pending", "interrupt", "cancelled"],
)
def test_a_subagent_ends_as_its_segment_does(stream: StreamNormaliser, outcome: RunOutcome, ending: Event) -> None:
    feed_all(stream, subagent(S))
    assert feed_all(stream, replace(FINISHED, outcome=outcome))[0] == ending


def test_subagents_end_youngest_first(stream: StreamNormaliser) -> None:
    feed_all(stream, subagent(S), subagent(U, S))
    assert feed_all(stream, FINISHED)[:2] == [
        SubagentFinished(subagent_run_id=U),
        SubagentFinished(subagent_run_id=S),
    ]


def test_a_tool_call_of_a_subagent_is_in_a_message_of_that_subagent(stream: StreamNormaliser) -> None:
    feed_all(stream, subagent(S), start("m", S), start("n"))
    assert feed_all(stream, call("c", owner=S)) == [call("c", "m", S)]


def test_a_tool_call_follows_its_message_to_the_new_id_and_the_owner(stream: StreamNormaliser) -> None:
    feed_all(stream, subagent(S), start("m"), end("m"), start("m", S))
    assert feed_all(stream, call("c", "m")) == [call("c", "m-2", S)]


def test_a_step_is_known_by_its_name_and_owner(stream: StreamNormaliser) -> None:
    step, finish = StepStarted(step_name="x"), StepFinished(step_name="x")
    theirs = replace(step, subagent_run_id=S)
    feed_all(stream, subagent(S))
    assert feed_all(stream, step, step, theirs, finish, finish) == [step, theirs, finish]


def test_events_of_a_thing_have_the_tag_of_its_owner(stream: StreamNormaliser) -> None:
    feed_all(stream, subagent(S), subagent(U), start("m", S), start("n"))
    assert stream.feed(replace(content("m", "w", U), timestamp=5), at=NOW) == [
        replace(content("m", "w", S), timestamp=5)
    ]
    assert feed_all(stream, content("m", "x", U), content("m", "y"), content("n", "z", S), end("m")) == [
        content("m", "x", S),
        content("m", "y", S),
        content("n", "z"),
        end("m", S),
    ]


def test_the_tag_of_an_unknown_subagent_is_left_out(stream: StreamNormaliser) -> None:
    custom = Custom(name="n", value=1)
    assert feed_all(stream, replace(custom, subagent_run_id=S), start("m", S)) == [custom, start("m")]
    assert feed_all(stream, subagent(U, S)) == [subagent(U)]


def test_deltas_and_encrypted_values_have_no_tag(stream: StreamNormaliser) -> None:
    delta = ActivityDelta(message_id=MessageId("a"), activity_type="t", patch=[])
    feed_all(stream, subagent(S))
    assert feed_all(stream, replace(delta, subagent_run_id=S)) == [delta]


def test_a_subagent_end_closes_only_its_own_work(stream: StreamNormaliser) -> None:
    step, span = StepStarted(step_name="x"), ReasoningStart(message_id=MessageId("p"))
    feed_all(stream, subagent(S), start("m", S), start("n"), call("c", "m", S), call("d", "n"), step, span)
    feed_all(stream, replace(step, subagent_run_id=S), ReasoningStart(message_id=MessageId("q"), subagent_run_id=S))
    assert feed_all(stream, SubagentError(subagent_run_id=S, message="no")) == [
        end("m", S),
        ReasoningEnd(message_id=MessageId("q"), subagent_run_id=S),
        call_end("c", S),
        StepFinished(step_name="x", subagent_run_id=S),
        SubagentError(subagent_run_id=S, message="no"),
    ]
    assert feed_all(stream, SubagentFinished(subagent_run_id=S)) == []


def test_a_second_start_of_an_open_subagent_is_left_out(stream: StreamNormaliser) -> None:
    assert feed_all(stream, subagent(S), subagent(S)) == [subagent(S)]


def test_a_subagent_names_its_message_and_call_by_their_logged_ids(stream: StreamNormaliser) -> None:
    produced = replace(subagent(S), parent_message_id=MessageId("m"), parent_tool_call_id=ToolCallId("c"))
    feed_all(stream, start("m"), end("m"), start("m"), call("c"), call_end("c"), call("c"))
    assert feed_all(stream, produced) == [
        replace(produced, parent_message_id=MessageId("m-2"), parent_tool_call_id=ToolCallId("c-2"))
    ]


def test_a_result_belongs_to_the_owner_of_its_call(stream: StreamNormaliser) -> None:
    feed_all(stream, subagent(S), subagent(U), call("c", "m", S), call_end("c"))
    (answered,) = feed_all(stream, replace(result("c", "r"), subagent_run_id=U))
    assert answered == replace(result("c", "r"), subagent_run_id=S)


def test_a_call_in_the_message_of_a_result_has_the_owner_of_that_result(stream: StreamNormaliser) -> None:
    feed_all(stream, subagent(S), subagent(U), call("c", "m", S), result("c", "r"))
    assert feed_all(stream, call("d", "r", U)) == [call("d", "r", S)]


def test_a_call_in_a_history_message_has_no_tag(stream: StreamNormaliser) -> None:
    messages: list[AgUiMessage] = [AssistantMessage(id=MessageId("m"), subagent_run_id=U)]
    feed_all(stream, subagent(S), MessagesSnapshot(messages=messages))
    assert feed_all(stream, call("c", "m", S)) == [call("c", "m")]


def test_an_open_call_in_a_snapshot_loses_its_tag(stream: StreamNormaliser) -> None:
    known = AgUiToolCall(id=ToolCallId("c"), function=FunctionCall(name="f", arguments=""))
    messages: list[AgUiMessage] = [AssistantMessage(id=MessageId("m"), tool_calls=[known], subagent_run_id=U)]
    feed_all(stream, subagent(S), call("c", "m", S), MessagesSnapshot(messages=messages))
    assert feed_all(stream, args("c", owner=S), result("c", "r")) == [args("c"), call_end("c"), result("c", "r")]


def test_a_span_of_the_history_has_no_tag(stream: StreamNormaliser) -> None:
    r = MessageId("r")
    messages: list[AgUiMessage] = [ReasoningMessage(id=r, content="", subagent_run_id=U)]
    feed_all(stream, subagent(S), MessagesSnapshot(messages=messages))
    assert feed_all(stream, ReasoningStart(message_id=r, subagent_run_id=S)) == [ReasoningStart(message_id=r)]


def test_a_span_and_a_message_of_one_id_have_one_owner(stream: StreamNormaliser) -> None:
    span, r = MessageId("r"), MessageId("r")
    feed_all(stream, subagent(S), ReasoningStart(message_id=span))
    assert feed_all(stream, ReasoningMessageStart(message_id=r, subagent_run_id=S)) == [
        ReasoningMessageStart(message_id=r)
    ]


def test_a_subagent_id_is_never_used_again(stream: StreamNormaliser) -> None:
    again = RunId("s-2")
    feed_all(stream, subagent(S), SubagentFinished(subagent_run_id=S), FINISHED)
    assert feed_all(stream, subagent(S), start("m", S), SubagentFinished(subagent_run_id=S))[1:] == [
        subagent(again),
        start("m", again),
        end("m", again),
        SubagentFinished(subagent_run_id=again),
    ]


def test_a_suspended_subagent_keeps_its_id_in_a_later_segment(stream: StreamNormaliser) -> None:
    asked = InterruptOutcome(interrupts=[AgUiInterrupt(id=InterruptId("i"), reason="why")])
    feed_all(stream, subagent(S), replace(FINISHED, outcome=asked))
    assert feed_all(stream, subagent(S))[-1] == subagent(S)


def test_the_id_of_a_resumed_and_ended_subagent_is_not_reused(stream: StreamNormaliser) -> None:
    feed_all(stream, subagent(S), SubagentFinished(subagent_run_id=S, outcome=SubagentSuspended()), FINISHED)
    feed_all(stream, subagent(S), SubagentFinished(subagent_run_id=S), FINISHED)
    assert feed_all(stream, subagent(S))[-1] == subagent(RunId("s-2"))


def test_an_interrupt_names_its_subagent_by_the_logged_id(stream: StreamNormaliser) -> None:
    asked = AgUiInterrupt(id=InterruptId("i"), reason="why", subagent_run_id=S)
    feed_all(stream, subagent(S), SubagentFinished(subagent_run_id=S), subagent(S))
    (*_, finished) = feed_all(stream, replace(FINISHED, outcome=InterruptOutcome(interrupts=[asked])))
    renamed = replace(asked, subagent_run_id=RunId("s-2"))
    assert finished == replace(FINISHED, outcome=InterruptOutcome(interrupts=[renamed]))


def test_a_suspended_subagent_gets_a_new_id_in_the_same_segment(stream: StreamNormaliser) -> None:
    feed_all(stream, subagent(S), SubagentFinished(subagent_run_id=S, outcome=SubagentSuspended()))
    assert feed_all(stream, subagent(S)) == [subagent(RunId("s-2"))]
