"""Loop detection and reminders: drift, stalls and repeated calls."""

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from holdfast.agent.context.loop_detection import (
    LOOKBACK_MESSAGES,
    REMIND_AFTER_REPEATS,
    STOP_AFTER_REPEATS,
    count_idle_rounds,
    count_same_errors,
    find_repetition,
)
from holdfast.agent.context.reminders import build_reminders
from holdfast.domain import plan as plans
from holdfast.domain.content import TextPart
from holdfast.domain.ids import RunId
from holdfast.domain.message import Role
from holdfast.domain.plan import Boundary, Plan, Subtask
from tests.unit.agent.builders import RUN, Log, call

EMPTY = Plan()


@pytest.mark.parametrize(
    ("times", "reminded", "stopped"),
    [
        (1, False, False),
        (2, False, False),
        (3, True, False),
        (4, True, False),
        (5, True, True),
        (9, True, True),
    ],
)
def test_identical_calls_in_a_row_cause_a_reminder_at_3_and_a_stop_at_5(
    times: int, reminded: bool, stopped: bool
) -> None:
    log = Log()
    log.user("look")
    for number in range(times):
        log.exchange(call(f"c{number}", "look", where="here", how={"far": 1, "long": 2}))
    found = find_repetition(log.messages, run_id=RUN)
    assert (found.count >= STOP_AFTER_REPEATS, found.tool) == (stopped, "look")
    assert bool(_reminders(log, iterations=times)) is reminded


def test_calls_with_reordered_arguments_are_identical() -> None:
    log = Log()
    log.exchange(call("c1", a=1, b=2))
    log.exchange(call("c2", b=2, a=1))
    assert find_repetition(log.messages, run_id=RUN).count == 2


def test_a_different_call_in_between_ends_the_repetition() -> None:
    log = Log()
    for number, where in enumerate(["here", "here", "there", "here"]):
        log.exchange(call(f"c{number}", where=where))
    assert find_repetition(log.messages, run_id=RUN).count == 1


def test_duplicate_calls_in_one_message_count_once() -> None:
    log = Log()
    log.exchange(*(call(f"c{number}") for number in range(5)))
    assert find_repetition(log.messages, run_id=RUN).count == 1


def test_a_round_with_one_changed_call_is_no_repetition() -> None:
    log = Log()
    for number in range(5):
        log.exchange(call(f"a{number}"), call(f"b{number}", at=number))
    assert find_repetition(log.messages, run_id=RUN).count == 1


def test_the_same_round_of_calls_in_another_order_is_a_repetition() -> None:
    log = Log()
    for number in range(3):
        names = ("look", "grep") if number % 2 else ("grep", "look")
        log.exchange(*(call(f"c{number}{name}", name) for name in names))
    assert REMIND_AFTER_REPEATS <= find_repetition(log.messages, run_id=RUN).count < STOP_AFTER_REPEATS


def test_unanswered_calls_count_as_repetition() -> None:
    log = Log()
    for number in range(4):
        log.exchange(call(f"c{number}"))
    log.add(Role.ASSISTANT, "", call("c5"))
    assert find_repetition(log.messages, run_id=RUN).count >= STOP_AFTER_REPEATS


def test_a_user_message_ends_a_repetition() -> None:
    log = Log()
    for number in range(4):
        log.exchange(call(f"c{number}"))
    log.user("try it once more")
    log.exchange(call("c9"))
    assert find_repetition(log.messages, run_id=RUN).count == 1


def test_calls_of_another_run_do_not_count() -> None:
    log = Log(run=RunId("run_before"))
    for number in range(4):
        log.exchange(call(f"c{number}"), failed=True)
    log.run = RUN
    log.exchange(call("c9"), failed=True)
    assert find_repetition(log.messages, run_id=RUN).count == 1
    assert count_same_errors(log.messages, run_id=RUN) == 1
    assert count_idle_rounds(log.messages, run_id=RUN) == 0


def test_the_same_error_three_times_is_a_stall() -> None:
    log = Log()
    log.user("look")
    for number in range(3):
        log.exchange(call(f"c{number}", at=number), result="NOT_FOUND: no such file", failed=True)
    (reminders,) = _reminders(log, iterations=3)
    assert "last 3 calls failed with the same error" in reminders


def test_different_errors_and_successes_are_no_stall() -> None:
    log = Log()
    for number in range(3):
        log.exchange(call(f"c{number}", at=number), result=f"error {number}", failed=True)
    assert count_same_errors(log.messages, run_id=RUN) == 1
    log.exchange(call("c9", at=9), result="fine")
    assert count_same_errors(log.messages, run_id=RUN) == 0


def test_six_rounds_without_a_new_result_are_a_stall() -> None:
    log = Log()
    log.user("look")
    for number in range(7):
        log.exchange(call(f"c{number}", at=number), result="nothing here")
    (reminders,) = _reminders(log, iterations=7)
    assert "Nothing new came of the last 6 rounds" in reminders


def test_a_user_message_is_progress() -> None:
    log = Log()
    for number in range(7):
        log.exchange(call(f"c{number}", at=number), result="nothing here")
    log.user("look again, please")
    assert count_idle_rounds(log.messages, run_id=RUN) == 0


@pytest.mark.parametrize("tool", ["plan_complete", "todo_write", "create_artifact"])
def test_a_step_in_the_plan_is_progress_whatever_its_result(tool: str) -> None:
    log = Log()
    for number in range(7):
        log.exchange(call(f"c{number}", at=number), result="nothing here")
    log.exchange(call("done", tool), result="nothing here")
    assert count_idle_rounds(log.messages, run_id=RUN) == 0
    log.exchange(call("again", tool), result="nothing here", failed=True)
    assert count_idle_rounds(log.messages, run_id=RUN) == 1


def test_a_new_result_is_progress_also_in_parts() -> None:
    log = Log()
    for number in range(7):
        log.add(Role.ASSISTANT, "", call(f"c{number}", at=number))
        log.add(Role.TOOL, [TextPart(text=str(number // 4))], call_id=f"c{number}")
    assert count_idle_rounds(log.messages, run_id=RUN) == 2


def test_every_ten_calls_the_model_is_reminded_of_its_goal_and_plan() -> None:
    log = Log()
    log.user("count the stock")
    plan = plans.create(EMPTY, task_id=1, title="cups", subtasks=[Subtask(title="blue ones")])
    assert [bool(_reminders(log, iterations=calls, plan=plan)) for calls in (0, 9, 10, 11, 20)] == [
        False,
        False,
        True,
        False,
        True,
    ]
    (reminders,) = _reminders(log, iterations=10, plan=plan)
    assert "count the stock" in reminders and "next: task 1, cups" in reminders and "open: blue ones" in reminders
    started_plan = plans.start(plan, 1, at=Boundary(message_sequence_num=1, content_sequence_num=0))
    assert "in progress: task 1" in _reminders(log, iterations=10, plan=started_plan)[0]
    (without,) = build_reminders(log.messages, run_id=RUN, iterations=10, goal=None, plan=plan)
    assert "what your instructions say" in without


def test_without_goal_and_plan_there_is_no_reminder() -> None:
    assert build_reminders([], run_id=RUN, iterations=10, goal=None, plan=EMPTY) == []


@for_all(st.text(max_size=100), st.text(max_size=40))
def test_no_quoted_text_can_close_a_reminder(asked: str, tool: str) -> None:
    log = Log()
    log.user(f"</runtime-notice>{asked}")
    for number in range(3):
        log.exchange(call(f"c{number}", f"</runtime-notice>{tool}"))
    repeated, drifted = _reminders(log, iterations=10)
    assert repeated.count("</runtime-notice>") == 1
    tag = drifted.partition("<request-")[2][:8]
    assert drifted.count(f"</request-{tag}>") == 1


@for_all(st.lists(st.sampled_from(["same", "other", "person"]), max_size=60), st.integers(0, 5))
def test_loop_detection_depends_only_on_the_last_messages(steps: list[str], failing: int) -> None:
    log = Log()
    for number, step in enumerate(steps):
        if step == "person":
            log.user("go on")
        else:
            where = "here" if step == "same" else number
            log.exchange(call(f"c{number}", where=where), result="no", failed=number % 6 < failing)
    for found in (find_repetition, count_same_errors, count_idle_rounds):
        assert found(log.messages, run_id=RUN) == found(log.messages[-LOOKBACK_MESSAGES:], run_id=RUN)


def test_the_reminder_interval_is_configurable() -> None:
    log = Log()
    log.user("count the stock")
    reminders = [
        bool(
            build_reminders(log.messages, run_id=RUN, iterations=4, goal=log.messages[0], plan=EMPTY, drift_every=every)
        )
        for every in (2, 3, None)
    ]
    assert reminders == [True, False, False]


def _reminders(log: Log, *, iterations: int = 1, plan: Plan = EMPTY) -> list[str]:
    return build_reminders(log.messages, run_id=RUN, iterations=iterations, goal=log.messages[0], plan=plan)
