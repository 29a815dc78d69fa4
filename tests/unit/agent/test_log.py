"""The log of a run in its worker's hands: what is said gathers, and a commit takes all of it, or keeps it."""

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
from tests.unit.agent.notebook import Notebook, a_log

M = MessageId("m")
COMPLETED = Move(to=RunStatus.COMPLETED)
END = RunFinished(thread_id=THREAD, run_id=RUN)


async def test_deltas_that_follow_each_other_are_one_event() -> None:
    notebook = Notebook()
    log = a_log(notebook)
    log.emit(TextMessageStart(message_id=M, role="assistant"))
    for delta in "abc":
        log.emit_delta(TextMessageContent, M, delta)
    await log.commit()
    log.emit_delta(TextMessageContent, M, "d")
    log.emit(TextMessageEnd(message_id=M))
    await log.commit()
    deltas = [
        [event.delta for event in each.events if isinstance(event, TextMessageContent)] for each in notebook.commits
    ]
    assert deltas == [["abc"], ["d"]]


async def test_nothing_to_say_is_no_commit() -> None:
    notebook = Notebook()
    log = a_log(notebook)
    assert not log.has_pending.is_set()
    await log.commit()
    assert notebook.commits == []


async def test_an_end_closes_what_is_open() -> None:
    notebook = Notebook()
    log = a_log(notebook)
    log.emit(TextMessageStart(message_id=M, role="assistant"))
    log.emit_delta(TextMessageContent, M, "half")
    await log.commit(COMPLETED, end=END)
    verify_stream(notebook.events)
    assert [event_type(event) for event in notebook.events][-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]


@pytest.mark.parametrize("refusal", [InboxNotEmpty("x"), BudgetExceeded("x"), WouldDeadlock("x")])
async def test_what_is_refused_for_now_is_in_the_next_commit_once(refusal: Exception) -> None:
    notebook = Notebook()
    notebook.refusals = [refusal]  # type: ignore[list-item]
    log = a_log(notebook)
    log.emit(TextMessageStart(message_id=M, role="assistant"))
    log.emit_delta(TextMessageContent, M, "all of it")
    log.draft.messages.append(assistant("all of it", id="m"))
    log.draft.consumed.append(3)
    with pytest.raises(type(refusal)):
        await log.commit(COMPLETED, end=END)
    log.emit(TextMessageStart(message_id=MessageId("n"), role="assistant"))
    await log.commit(COMPLETED, end=END)
    (commit,) = notebook.commits
    assert [message.content for message in commit.messages] == ["all of it"]
    assert commit.consumed == [3]
    assert sum(isinstance(event, RunFinished) for event in commit.events) == 1
    verify_stream(notebook.events)


async def test_what_is_lost_is_lost() -> None:
    notebook = Notebook()
    notebook.refusals = [LeaseLost("x")]
    log = a_log(notebook)
    log.draft.messages.append(user("x"))
    with pytest.raises(LeaseLost):
        await log.commit()
    assert log.draft.empty


async def test_commits_follow_each_other_and_take_what_was_said_meanwhile() -> None:
    notebook = Notebook()
    log = a_log(notebook)
    notebook.gate.clear()
    log.draft.messages.append(user("one"))
    async with asyncio.TaskGroup() as group:
        group.create_task(log.commit())
        await notebook.begun.acquire()
        log.draft.messages.append(user("two"))
        second = group.create_task(log.commit())
        await asyncio.sleep(0)
        log.draft.messages.append(user("three"))
        assert notebook.commits == [] and not second.done()
        notebook.gate.set()
    said = [[message.content for message in commit.messages] for commit in notebook.commits]
    assert said == [["one"], ["two", "three"]]


async def test_messages_enter_the_conversation_when_they_are_there() -> None:
    notebook = Notebook()
    talk = ConversationWindow(RUN, [], turn=TurnPosition(goal=None, position=0), whole=True)
    log = a_log(notebook, conversation=talk)
    log.draft.messages += [user("hi", id="u"), assistant("hello", id="a")]
    assert talk.messages == []
    await log.commit()
    assert [(message.id, message.sequence, message.run_id) for message in talk.messages] == [
        ("u", 100, RUN),
        ("a", 101, RUN),
    ]
    assert (talk.position, talk.goal) == (1, talk.messages[0])


async def test_a_step_is_said_and_kept_as_it_last_stood() -> None:
    notebook = Notebook()
    log, ledger = a_log(notebook), StepLedger(RUN, [])
    step = log.record_step(ledger.start_model_call("m"))
    log.record_step(ledger.settle(step, StepState.FAILED))
    await log.commit()
    (commit,) = notebook.commits
    assert [(each.number, each.state) for each in commit.steps] == [(1, StepState.FAILED)]
    told = [event.value["state"] for event in commit.events if isinstance(event, Custom)]
    assert told == ["started", "failed"]


async def test_a_step_that_could_not_begin_is_unsaid() -> None:
    notebook = Notebook()
    log, ledger = a_log(notebook), StepLedger(RUN, [])
    log.record_step(ledger.settle(ledger.start_model_call("m"), StepState.FAILED))
    log.discard_step(log.record_step(ledger.start_model_call("m")))
    await log.commit()
    (commit,) = notebook.commits
    assert [step.number for step in commit.steps] == [1]
    assert [event.value["number"] for event in commit.events if isinstance(event, Custom)] == [1]


async def test_it_knows_how_far_the_log_is() -> None:
    notebook = Notebook()
    log = a_log(notebook)
    log.emit(TextMessageStart(message_id=M, role="assistant"), TextMessageEnd(message_id=M))
    assert log.last_event_seq == 1
    await log.commit()
    assert log.last_event_seq == 3
