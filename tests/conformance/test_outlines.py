"""Outlines of threads: made of what was said after runs, the same however it was batched, and forgotten with it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from holdfast.domain.errors import ModelUnavailable
from holdfast.domain.forgetting import ForgetRequest
from holdfast.domain.ids import ThreadId
from holdfast.domain.limits import Usage
from holdfast.domain.thread import NewThread, Thread, ThreadPatch
from holdfast.domain.usage import UsageGroup, day_of
from holdfast.memory import outlines
from holdfast.memory.outlines import Outliner, query_words
from holdfast.ports.model import Model, ModelDelta, ModelFinished, ModelRequest, TextDelta
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import completed_run
from tests.conformance.test_recall import Recalling

REQUEST = "Plan the trip of Mika to Kyoto in May."
RULE = "Always book window seats from now on."
ANSWER = "We decided to take the train on 3 May. The weather is usually fine."


class FakeModels:
    """Models that all give one answer."""

    context_window, price_known, idle_timeout_seconds, address, name = 100_000, True, 60.0, None, "fake:outline"

    def __init__(self, answer: str | Exception = "") -> None:
        self._answer = answer
        self.requests: list[ModelRequest] = []

    def find(self, name: str, *, folder: str | None = None) -> Model:
        return self

    def fallback(self, names: Sequence[str], *, folder: str | None = None) -> Model:
        return self

    async def prepare(self, names: Sequence[str]) -> None:
        """Import nothing."""

    def cost(self, *, input_tokens: int, output_tokens: int) -> float | None:
        return 0.0

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelDelta]]:
        self.requests.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        yield self._deltas(self._answer)

    async def _deltas(self, answer: str) -> AsyncIterator[ModelDelta]:
        yield TextDelta(answer)
        yield ModelFinished(usage=Usage(input_tokens=7, output_tokens=3, cached_input_tokens=0, cost_usd=0.001))


async def outlined(store: Store, clock: HeldClock, thread: ThreadId, models: FakeModels | None = None) -> Thread:
    await Recalling(store, clock).indexer.run_once()
    used = models or FakeModels()
    name = None if models is None else "fake:outline"
    await Outliner(
        store.outlines, models=used, model=name, redact=lambda text: text.replace("hunter2", "***")
    ).run_once()
    return await store.threads.get(SPACE, thread)


async def trip(store: Store) -> ThreadId:
    thread = (await store.threads.create(SPACE, NewThread())).id
    await completed_run(store, thread, REQUEST, ANSWER)
    await completed_run(store, thread, RULE, "Noted.")
    return thread


async def test_an_outline_quotes_what_was_asked_answered_and_decided(store: Store, clock: HeldClock) -> None:
    thread = await outlined(store, clock, await trip(store))
    assert thread.title == REQUEST
    assert thread.summary == f"{REQUEST}\n{RULE}\n→ Noted."
    assert thread.key_points == [REQUEST, "We decided to take the train on 3 May.", RULE]
    assert thread.retrieval_index is not None
    assert "weather" in thread.retrieval_index.split()


async def test_a_batch_of_one_message_gives_the_same_outline(
    store: Store, clock: HeldClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await outlined(store, clock, await trip(store))
    monkeypatch.setattr(outlines, "MESSAGES_PER_BATCH", 1)
    parts = await outlined(store, clock, await trip(store))
    assert (parts.summary, parts.key_points, parts.retrieval_index) == (
        whole.summary,
        whole.key_points,
        whole.retrieval_index,
    )


async def test_a_thread_is_outlined_after_its_run_and_again_after_the_next(store: Store, clock: HeldClock) -> None:
    thread = await trip(store)
    first = await outlined(store, clock, thread)
    await completed_run(store, thread, "どこに泊まりますか。京都駅の近くがいい。", "駅前のホテルに決定しました。")
    second = await outlined(store, clock, thread)
    assert second.title == first.title
    assert second.key_points[-1] == "駅前のホテルに決定しました。"
    assert (await store.outlines.pending(limit=10, messages=10)) == []
    found = await store.outlines.with_words(SPACE, query_words("ホテル"), least=1, limit=5)
    assert [each.id for each, _ in found] == [thread]
    assert await store.outlines.with_words(OTHER, query_words("ホテル"), least=1, limit=5) == []


async def test_of_two_outliners_one_writes_and_a_title_of_a_person_stays(store: Store, clock: HeldClock) -> None:
    thread = await trip(store)
    await Recalling(store, clock).indexer.run_once()
    (pending,) = await store.outlines.pending(limit=10, messages=10)
    await store.threads.update(SPACE, thread, ThreadPatch(title="Holiday"))
    made = outlines.outline_by_rule(pending)
    assert await store.outlines.put(pending, made) is True
    assert await store.outlines.put(pending, made) is False
    assert (await store.threads.get(SPACE, thread)).title == "Holiday"


async def test_forgetting_drops_the_outline_and_one_that_was_read_before_is_not_stored(
    store: Store, clock: HeldClock
) -> None:
    thread = await trip(store)
    await Recalling(store, clock).indexer.run_once()
    (pending,) = await store.outlines.pending(limit=10, messages=10)
    (hit, *_) = (await Recalling(store, clock).find("trip of Mika")).hits
    assert hit.text == REQUEST
    await store.forgetting.forget(SPACE, ForgetRequest(run_id=hit.run_id))
    assert await store.outlines.put(pending, outlines.outline_by_rule(pending)) is False
    after = await outlined(store, clock, thread)
    assert after.title == RULE
    assert "kyoto" not in str((after.summary, after.key_points, after.retrieval_index)).casefold()
    assert RULE in after.key_points


async def test_deleting_a_run_drops_what_was_derived_from_it(store: Store, clock: HeldClock) -> None:
    thread = (await store.threads.create(SPACE, NewThread())).id
    await completed_run(store, thread, RULE, "Noted.")
    run = await completed_run(store, thread, REQUEST, ANSWER)
    await outlined(store, clock, thread)
    await store.runs.delete(SPACE, run.id)
    after = await outlined(store, clock, thread)
    assert after.key_points == [RULE]
    assert "kyoto" not in str(after.retrieval_index)


async def test_a_model_makes_the_outline_and_its_usage_counts(store: Store, clock: HeldClock) -> None:
    answer = '{"title": "Trip to Kyoto", "summary": "Mika travels; pw hunter2.", "key_points": ["By train on 3 May"]}'
    thread = await outlined(store, clock, await trip(store), FakeModels(answer))
    assert (thread.title, thread.summary, thread.key_points) == (
        "Trip to Kyoto",
        "Mika travels; pw ***.",
        ["By train on 3 May"],
    )
    day = day_of(clock.now())
    (total,) = await store.usage.totals(SPACE, group_by=UsageGroup.AGENT, first_day=day, last_day=day)
    assert (total.name, total.calls) == ("_outline", 1)
    await store.forgetting.forget(SPACE, ForgetRequest(thread_id=thread.id))
    assert (await store.threads.get(SPACE, thread.id)).title is None


@pytest.mark.parametrize("answer", ["no JSON", '{"title": 1}', ModelUnavailable("away")])
async def test_without_a_valid_answer_the_rules_make_the_outline(
    store: Store, clock: HeldClock, answer: str | Exception
) -> None:
    thread = await outlined(store, clock, await trip(store), FakeModels(answer))
    assert thread.title == REQUEST
    assert RULE in thread.key_points
