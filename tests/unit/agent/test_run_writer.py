"""`RunWriter`: events are collected, and a commit takes all of them or keeps them."""

import asyncio

import pytest

from holdfast.agent.context.conversation import ConversationWindow, TurnPosition
from holdfast.agent.step_ledger import StepLedger
from holdfast.domain.errors import BudgetExceeded, InboxNotEmpty, LeaseLost, WouldDeadlock
from holdfast.domain.events import Custom, RunFinished, TextMessageContent, TextMessageEnd, TextMessageStart, event_type
from holdfast.domain.ids import MessageId
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.step import StepState
from holdfast.testing.stream_verifier import verify_stream
from tests.builders import assistant, user
from tests.unit.agent.builders import RUN, THREAD
from tests.unit.agent.fakes import FakeJournal, new_writer

M = MessageId("m")
COMPLETED = Move(to=RunStatus.COMPLETED)
END = RunFinished(thread_id=THREAD, run_id=RUN)


async def test_consecutive_deltas_become_one_event() -> None:
    journal = FakeJournal()
    writer = new_writer(journal)
    writer.emit(TextMessageStart(message_id=M, role="assistant"))
    for delta in "abc":
        writer.emit_delta(TextMessageContent, M, delta)
    await writer.commit()
    writer.emit_delta(TextMessageContent, M, "d")
    writer.emit(TextMessageEnd(message_id=M))
    await writer.commit()
    deltas = [
        [event.delta for event in each.events if isinstance(event, TextMessageContent)] for each in journal.commits
    ]
    assert deltas == [["abc"], ["d"]]


async def test_an_empty_draft_is_not_committed() -> None:
    journal = FakeJournal()
    writer = new_writer(journal)
    assert not writer.has_pending.is_set()
    await writer.commit()
    assert journal.commits == []


async def test_the_end_of_a_segment_closes_open_messages() -> None:
    journal = FakeJournal()
    writer = new_writer(journal)
    writer.emit(TextMessageStart(message_id=M, role="assistant"))
    writer.emit_delta(TextMessageContent, M, "half")
    await writer.commit(COMPLETED, end=END)
    verify_stream(journal.events)
    assert [event_type(event) for event in journal.events][-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]


@pytest.mark.parametrize("refusal", [InboxNotEmpty("x"), BudgetExceeded("x"), WouldDeadlock("x")])
async def test_a_commit_that_is_refused_for_now_is_repeated_once_in_the_next(refusal: Exception) -> None:
    journal = FakeJournal()
    journal.refusals = [refusal]  # type: ignore[list-item]
    writer = new_writer(journal)
    writer.emit(TextMessageStart(message_id=M, role="assistant"))
    writer.emit_delta(TextMessageContent, M, "all of it")
    writer.draft.messages.append(assistant("all of it", id="m"))
    writer.draft.consumed.append(3)
    with pytest.raises(type(refusal)):
        await writer.commit(COMPLETED, end=END)
    writer.emit(TextMessageStart(message_id=MessageId("n"), role="assistant"))
    await writer.commit(COMPLETED, end=END)
    (commit,) = journal.commits
    assert [message.content for message in commit.messages] == ["all of it"]
    assert commit.consumed == [3]
    assert sum(isinstance(event, RunFinished) for event in commit.events) == 1
    verify_stream(journal.events)


async def test_a_draft_is_dropped_when_the_lease_is_lost() -> None:
    journal = FakeJournal()
    journal.refusals = [LeaseLost("x")]
    writer = new_writer(journal)
    writer.draft.messages.append(user("x"))
    with pytest.raises(LeaseLost):
        await writer.commit()
    assert writer.draft.empty


async def test_commits_are_serialised_and_include_everything_added_meanwhile() -> None:
    journal = FakeJournal()
    writer = new_writer(journal)
    journal.gate.clear()
    writer.draft.messages.append(user("one"))
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.commit())
        await journal.started.acquire()
        writer.draft.messages.append(user("two"))
        second = group.create_task(writer.commit())
        await asyncio.sleep(0)
        writer.draft.messages.append(user("three"))
        assert journal.commits == [] and not second.done()
        journal.gate.set()
    contents = [[message.content for message in commit.messages] for commit in journal.commits]
    assert contents == [["one"], ["two", "three"]]


async def test_messages_enter_the_conversation_once_committed() -> None:
    journal = FakeJournal()
    window = ConversationWindow(RUN, [], turn=TurnPosition(goal=None, position=0), whole=True)
    writer = new_writer(journal, conversation=window)
    writer.draft.messages += [user("hi", id="u"), assistant("hello", id="a")]
    assert window.messages == []
    await writer.commit()
    assert [(message.id, message.sequence, message.run_id) for message in window.messages] == [
        ("u", 100, RUN),
        ("a", 101, RUN),
    ]
    assert (window.position, window.goal) == (1, window.messages[0])


async def test_every_state_of_a_step_is_emitted_and_the_last_one_stored() -> None:
    journal = FakeJournal()
    writer, ledger = new_writer(journal), StepLedger(RUN, [])
    step = writer.record_step(ledger.start_model_call("m"))
    writer.record_step(ledger.settle(step, StepState.FAILED))
    await writer.commit()
    (commit,) = journal.commits
    assert [(each.number, each.state) for each in commit.steps] == [(1, StepState.FAILED)]
    states = [event.value["state"] for event in commit.events if isinstance(event, Custom)]
    assert states == ["started", "failed"]


async def test_a_discarded_step_leaves_no_event() -> None:
    journal = FakeJournal()
    writer, ledger = new_writer(journal), StepLedger(RUN, [])
    writer.record_step(ledger.settle(ledger.start_model_call("m"), StepState.FAILED))
    writer.discard_step(writer.record_step(ledger.start_model_call("m")))
    await writer.commit()
    (commit,) = journal.commits
    assert [step.number for step in commit.steps] == [1]
    assert [event.value["number"] for event in commit.events if isinstance(event, Custom)] == [1]


async def test_the_writer_knows_the_last_event_of_the_log() -> None:
    journal = FakeJournal()
    writer = new_writer(journal)
    writer.emit(TextMessageStart(message_id=M, role="assistant"), TextMessageEnd(message_id=M))
    assert writer.last_event_seq == 1
    await writer.commit()
    assert writer.last_event_seq == 3
