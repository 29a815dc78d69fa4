import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Conflict
from holdfast.domain.idempotency import derived_id
from holdfast.domain.instant import Instant, millis
from holdfast.tools.builtin.waiting import MAX_SLEEP_SECONDS, SLEEP
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import InterruptResolved, Preempted, TimerFired, TimerWait, ToolResult
from tests.support.calls import KEY, NOW, a_call


async def test_sleep_waits_on_a_timer_with_an_id_from_the_call_key() -> None:
    outcome = await SLEEP.run(a_call(), {"seconds": 90})
    until = Instant("2026-01-31T12:01:30.000Z")
    assert outcome == ToolResult(wait=TimerWait(timer_id=derived_id("tmr", key=KEY), until=until))  # type: ignore[arg-type]


@given(st.floats(0, MAX_SLEEP_SECONDS, exclude_min=True))
async def test_the_wait_is_the_given_time_and_at_least_a_millisecond(seconds: float) -> None:
    wait = (await SLEEP.run(a_call(), {"seconds": seconds})).wait
    assert isinstance(wait, TimerWait)
    waited = millis(wait.until) - millis(NOW)
    assert waited >= 1
    assert abs(waited - seconds * 1000) <= 1


async def test_the_result_is_the_time_slept() -> None:
    assert await SLEEP.resume(a_call(), {"seconds": 1.5}, TimerFired()) == ToolResult(content={"slept_seconds": 1.5})


async def test_a_message_wakes_it_early() -> None:
    outcome = await SLEEP.resume(a_call(), {"seconds": 5}, Preempted())
    assert outcome == ToolResult(content={"woke_early": True, "because": "a person said something"})


async def test_an_unexpected_cause_is_refused() -> None:
    with pytest.raises(Conflict, match="`sleep` does not wait for InterruptResolved"):
        await SLEEP.resume(a_call(), {"seconds": 5}, InterruptResolved(response=1))


@pytest.mark.parametrize("seconds", [0, -1, MAX_SLEEP_SECONDS + 1, "5", None, True, float("nan"), float("inf")])
async def test_an_invalid_or_too_long_time_is_refused(seconds: object) -> None:
    outcome = await with_standard_middleware(SLEEP).run(a_call(), {"seconds": seconds})
    assert outcome.failed
    assert outcome.wait is None
    assert "`seconds`" in outcome.content
