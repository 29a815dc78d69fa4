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
    log = new_writer(journal)
    log.emit(TextMessageStart(message_id=M, role="assistant"))
    for delta in "abc":
        log.emit_delta(TextMessageContent, M, delta)
    await log.commit()
    log.emit_delta(TextMessageContent, M, "d")
    log.emit(TextMessageEnd(message_id=M))
    await log.commit()
    deltas = [
        [event.delta for event in each.events if isinstance(event, TextMessageContent)] for each in journal.commits
    ]
    assert deltas == [["abc"], ["d"]]


async def test_an_empty_draft_is_not_committed() -> None:
    journal = FakeJournal()
    log = new_writer(journal)
    assert not log.has_pending.is_set()
    await log.commit()
    assert journal.commits == []


async def test_the_end_of_a_segment_closes_open_messages() -> None:
    journal = FakeJournal()
    log = new_writer(journal)
    log.emit(TextMessageStart(message_id=M, role="assistant"))
    log.emit_delta(TextMessageContent, M, "half")
    await log.commit(COMPLETED, end=END)
    verify_stream(journal.events)
    assert [event_type(event) for event in journal.events][-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]


@pytest.mark.parametrize("refusal", [InboxNotEmpty("x"), BudgetExceeded("x"), WouldDeadlock("x")])
async def test_a_commit_that_is_refused_for_now_is_repeated_once_in_the_next(refusal: Exception) -> None:
    journal = FakeJournal()
    journal.refusals = [refusal]  # type: ignore[list-item]
    log = new_writer(journal)
    log.emit(TextMessageStart(message_id=M, role="assistant"))
    log.emit_delta(TextMessageContent, M, "all of it")
    log.draft.messages.append(assistant("all of it", id="m"))
    log.draft.consumed.append(3)
    with pytest.raises(type(refusal)):
        await log.commit(COMPLETED, end=END)
    log.emit(TextMessageStart(message_id=MessageId("n"), role="assistant"))
    await log.commit(COMPLETED, end=END)
    (commit,) = journal.commits
    assert [message.content for message in commit.messages] == ["all of it"]
    assert commit.consumed == [3]
    assert sum(isinstance(event, RunFinished) for event in commit.events) == 1
    verify_stream(journal.events)


async def test_a_draft_is_dropped_when_the_lease_is_lost() -> None:
    journal = FakeJournal()
    journal.refusals = [LeaseLost("x")]
    log = new_writer(journal)
    log.draft.messages.append(user("x"))
    with pytest.raises(LeaseLost):
        await log.commit()
    assert log.draft.empty


async def test_commits_are_serialised_and_include_everything_added_meanwhile() -> None:
    journal = FakeJournal()
    log = new_writer(journal)
    journal.gate.clear()
    log.draft.messages.append(user("one"))
    async with asyncio.TaskGroup() as group:
        group.create_task(log.commit())
        await journal.begun.acquire()
        log.draft.messages.append(user("two"))
        second = group.create_task(log.commit())
        await asyncio.sleep(0)
        log.draft.messages.append(user("three"))
        assert journal.commits == [] and not second.done()
        journal.gate.set()
    said = [[message.content for message in commit.messages] for commit in journal.commits]
    assert said == [["one"], ["two", "three"]]


async def test_messages_enter_the_conversation_once_committed() -> None:
    journal = FakeJournal()
    talk = ConversationWindow(RUN, [], turn=TurnPosition(goal=None, position=0), whole=True)
    log = new_writer(journal, conversation=talk)
    log.draft.messages += [user("hi", id="u"), assistant("hello", id="a")]
    assert talk.messages == []
    await log.commit()
    assert [(message.id, message.sequence, message.run_id) for message in talk.messages] == [
        ("u", 100, RUN),
        ("a", 101, RUN),
    ]
    assert (talk.position, talk.goal) == (1, talk.messages[0])


async def test_every_state_of_a_step_is_emitted_and_the_last_one_stored() -> None:
    journal = FakeJournal()
    log, ledger = new_writer(journal), StepLedger(RUN, [])
    step = log.record_step(ledger.start_model_call("m"))
    log.record_step(ledger.settle(step, StepState.FAILED))
    await log.commit()
    (commit,) = journal.commits
    assert [(each.number, each.state) for each in commit.steps] == [(1, StepState.FAILED)]
    told = [event.value["state"] for event in commit.events if isinstance(event, Custom)]
    assert told == ["started", "failed"]


async def test_a_discarded_step_leaves_no_event() -> None:
    journal = FakeJournal()
    log, ledger = new_writer(journal), StepLedger(RUN, [])
    log.record_step(ledger.settle(ledger.start_model_call("m"), StepState.FAILED))
    log.discard_step(log.record_step(ledger.start_model_call("m")))
    await log.commit()
    (commit,) = journal.commits
    assert [step.number for step in commit.steps] == [1]
    assert [event.value["number"] for event in commit.events if isinstance(event, Custom)] == [1]


async def test_the_writer_knows_the_last_event_of_the_log() -> None:
    journal = FakeJournal()
    log = new_writer(journal)
    log.emit(TextMessageStart(message_id=M, role="assistant"), TextMessageEnd(message_id=M))
    assert log.last_event_seq == 1
    await log.commit()
    assert log.last_event_seq == 3
