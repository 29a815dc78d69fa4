"""`StepLedger`: numbers, keys and states of steps."""

from holdfast.agent.step_ledger import StepLedger
from holdfast.domain.ids import ToolCallId
from holdfast.domain.limits import Usage
from holdfast.domain.run import WaitsFor
from holdfast.domain.step import Step, StepKind, StepState
from tests.unit.agent.builders import RUN

CALL = ToolCallId("c")


def model(number: int, state: StepState, *, attempt: int = 1) -> Step:
    """Return a model call."""
    return Step(number=number, kind=StepKind.MODEL, name="m", key=f"k{number}", state=state, attempt=attempt)


def test_new_steps_continue_the_numbering() -> None:
    ledger = StepLedger(RUN, [model(1, StepState.DONE), model(4, StepState.DONE)])
    step = ledger.start_model_call("m")
    assert (step.number, step.key, step.state, step.attempt) == (5, f"{RUN}.5", StepState.STARTED, 1)
    assert ledger.start_tool_call("look", CALL, effectful=True).number == 6


def test_a_restarted_step_keeps_its_key() -> None:
    ledger = StepLedger(RUN, [])
    first = ledger.start_tool_call("look", CALL, effectful=False)
    restarted = ledger.restart(first)
    assert (restarted.number, restarted.key, restarted.attempt) == (first.number, first.key, 2)
    assert ledger.step_for_call(CALL) == restarted


def test_a_repeated_call_is_a_new_step_with_the_same_key() -> None:
    ledger = StepLedger(RUN, [])
    first = ledger.settle(ledger.start_tool_call("pay", CALL, effectful=True), StepState.UNKNOWN)
    second = ledger.start_tool_call("pay", CALL, effectful=True, key=first.key)
    assert (second.number, second.key) == (first.number + 1, first.key)
    assert ledger.step_for_call(CALL) == second


def test_a_settled_step_waits_for_nothing() -> None:
    ledger = StepLedger(RUN, [])
    waiting = ledger.mark_waiting(ledger.start_tool_call("ask", CALL, effectful=False), WaitsFor.PERSON)
    settled = ledger.settle(waiting, StepState.DONE, usage=Usage(cost_usd=0.0))
    assert (waiting.state, waiting.waits_for) == (StepState.WAITING, WaitsFor.PERSON)
    assert (settled.state, settled.waits_for, ledger.step_for_call(CALL)) == (StepState.DONE, None, settled)


def test_an_unsettled_model_call_is_found() -> None:
    assert StepLedger(RUN, [model(1, StepState.DONE)]).unsettled_model_call() is None
    assert StepLedger(RUN, []).unsettled_model_call() is None
    cut_off = model(2, StepState.STARTED)
    assert StepLedger(RUN, [model(1, StepState.DONE), cut_off]).unsettled_model_call() == cut_off


def test_failures_are_counted_since_the_last_success() -> None:
    failed, done = StepState.FAILED, StepState.DONE
    tool = Step(number=9, kind=StepKind.TOOL, name="t", key="t", state=failed, tool_call_id=CALL)
    for states, count in (
        ([], 0),
        ([done], 0),
        ([failed, failed], 2),
        ([failed, done, failed], 1),
        ([failed, failed, done], 0),
    ):
        steps = [model(number, state) for number, state in enumerate(states, start=1)]
        assert StepLedger(RUN, [*steps, tool]).consecutive_failures() == count


def test_abandoned_calls_are_counted_since_the_last_success() -> None:
    steps = [model(1, StepState.DONE, attempt=9), model(2, StepState.FAILED, attempt=3)]
    assert StepLedger(RUN, steps).abandoned_calls() == 2
    assert StepLedger(RUN, [*steps, model(3, StepState.STARTED, attempt=2)]).abandoned_calls() == 4
    assert StepLedger(RUN, [*steps, model(3, StepState.DONE, attempt=2)]).abandoned_calls() == 0
