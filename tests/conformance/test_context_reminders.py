"""Reminders that a message triggers: one that is about them, in their words or in others."""

from pathlib import Path

import pytest

from holdfast.domain.forgetting import ForgetRequest
from holdfast.domain.ids import ScheduleId
from holdfast.domain.reminder import (
    ReminderStatus,
)
from holdfast.domain.schedule import FiringCause
from holdfast.store.store import Store
from tests.conformance.conftest import SPACE
from tests.conformance.reminder_builders import (
    CONTEXT,
    PENDING,
    TRIGGERED,
    end,
    fire_due,
    firings,
    remind,
    start,
    status,
)
from tests.conformance.tables import rows_of


@pytest.mark.parametrize(
    ("about", "text", "expected"),
    [
        ("invoices of Acme", "Where is the Acme invoice?", TRIGGERED),
        ("invoices of Acme", "Where is the invoice?", PENDING),
        ("東京の会議", "来週の東京会議はどうなりましたか", TRIGGERED),
        ("東京の会議", "大阪の天気は?", PENDING),
        ("car insurance", "My vehicle policy expires next month: is the auto insurance cheaper elsewhere?", TRIGGERED),
        ("car insurance", "Wash the car.", PENDING),
        ("犬の予防接種", "ワンちゃんのワクチンの接種はいつ?", TRIGGERED),
        ("犬の予防接種", "猫が好きです", PENDING),
    ],
)
async def test_a_message_about_it_triggers_a_context(
    store: Store, about: str, text: str, expected: ReminderStatus
) -> None:
    made = await remind(store, about, CONTEXT)
    lease = await start(store, text=text)
    before = {each.id for each in await store.reminders.of_turn(SPACE, lease.thread_id, owner=None)}
    assert before == ({made.id} if expected is TRIGGERED else set())  # this turn has it already
    await fire_due(store)
    assert await status(store, made) is expected
    if expected is TRIGGERED:
        assert [each.cause for each in await firings(store, made)] == [FiringCause.CONTEXT]
        await start(store, text=text)
        assert await fire_due(store) == []


async def test_a_context_of_a_thread_is_met_there_only(store: Store) -> None:
    lease = await start(store)
    made = await remind(store, "invoices", CONTEXT, thread_id=lease.thread_id)
    await start(store, text="invoices")
    assert await fire_due(store) == []
    await end(store, lease)
    await start(store, text="invoices", thread=lease.thread_id)
    assert len(await fire_due(store)) == 1 and await status(store, made) is TRIGGERED


async def test_what_is_forgotten_is_erased_from_reminders_too(store: Store, where: str | Path) -> None:
    secret = "the code of the safe is 314159"
    lease = await start(store, text=secret)
    await end(store, lease)
    made = await remind(store, secret, CONTEXT, content=secret, context=f"he said: {secret}")
    await store.schedules.trigger(SPACE, ScheduleId(made.id), cause=FiringCause.MANUAL, reason=f"heard: {secret}")
    await store.notifications.dispatch()
    await store.forgetting.forget(SPACE, ForgetRequest(thread_id=lease.thread_id))
    rows = await rows_of(where)
    for table in ("reminders", "conditions", "schedules", "firings", "notifications", "outbox"):
        assert secret not in str(rows[table]), table
    assert rows["reminder_terms"] == []
    await start(store, text="it was forgotten")
    assert await store.reminders.of_turn(SPACE, lease.thread_id, owner=None) == [
        await store.reminders.get(SPACE, made.id)
    ]


async def test_a_context_that_lost_a_part_is_found_by_the_rest(store: Store, where: str | Path) -> None:
    secret = "The code of the safe is 314159."
    lease = await start(store, text=secret)
    await end(store, lease)
    made = await remind(store, f"burglars and locksmiths. {secret}", CONTEXT)
    await store.forgetting.forget(SPACE, ForgetRequest(thread_id=lease.thread_id))
    assert {row["term"] for row in (await rows_of(where))["reminder_terms"]} == {"burglar", "locksmith"}
    await start(store, text="what was forgotten?")
    assert await fire_due(store) == []
    await start(store, text="Do burglars fear locksmiths?")
    assert len(await fire_due(store)) == 1 and await status(store, made) is TRIGGERED
