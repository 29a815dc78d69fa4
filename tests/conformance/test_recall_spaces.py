"""The indexer goes to the spaces with something to index, and to no other."""

from holdfast.domain.forgetting import ForgetRequest
from holdfast.domain.ids import SpaceId
from holdfast.domain.memory import MemoryType, NewMemory
from holdfast.domain.new_run import NewRun
from holdfast.domain.recall import RecallKind
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import assistant, new_run, new_thread, user
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import completed_run
from tests.conformance.test_recall import CAT, DOG, Recalling, say


async def spaces(store: Store) -> list[SpaceId]:
    return await store.recall_index.spaces()


async def test_spaces_with_something_to_index_are_named_until_it_is_indexed(store: Store, clock: HeldClock) -> None:
    recalling = Recalling(store, clock)
    early, empty = await say(store, CAT), await new_thread(store, SPACE)
    await say(store, DOG, space=OTHER)
    assert await spaces(store) == []  # nobody has searched
    await recalling.find("cat")
    assert await spaces(store) == [SPACE]
    await recalling.indexer.run_once()
    assert await spaces(store) == []
    for thread in (early, empty, await new_thread(store, SPACE)):
        await store.runs.create(SPACE, NewRun(thread=thread, base=None, messages=[user(f"{CAT} {thread}")]))
        assert await spaces(store) == [SPACE]
        await recalling.indexer.run_once()
        assert await spaces(store) == []
    memory = (await store.memories.put(SPACE, NewMemory(type=MemoryType.SEMANTIC, text="Miso eats tuna."))).memory
    assert await spaces(store) == [SPACE]
    await recalling.indexer.run_once()
    await store.memories.retract(SPACE, memory.id)
    assert await spaces(store) == [SPACE]
    await recalling.indexer.run_once()
    await recalling.recall.put_file(SPACE, "MEMORY.md", "The dog barks.", at=clock.now())
    assert await spaces(store) == [SPACE]
    await recalling.indexer.run_once()
    await recalling.recall.rebuild(SPACE)
    assert await spaces(store) == [SPACE]
    await recalling.indexer.run_once()
    assert await spaces(store) == []


async def test_a_run_that_began_before_the_first_search_is_indexed_to_its_end(store: Store, clock: HeldClock) -> None:
    recalling = Recalling(store, clock)
    thread = await new_thread(store, SPACE)
    await completed_run(store, thread, "Where is the cat?", "On the printer.")
    run = await new_run(store, SPACE, thread, CAT)
    await recalling.find("cat")
    await recalling.indexer.run_once()
    await store.runs.end(SPACE, run.id)
    await store.runs.create(SPACE, NewRun(thread=thread, base=None, messages=[user("And the dog?"), assistant(DOG)]))
    assert await spaces(store) == [SPACE]
    await recalling.indexer.run_once()
    assert (await recalling.recall.status(SPACE)).pending == 0
    assert DOG in await recalling.texts("dog")


async def test_what_is_indexed_again_after_forgetting_is_named(store: Store, clock: HeldClock) -> None:
    recalling = Recalling(store, clock)
    thread = await new_thread(store, SPACE)
    await completed_run(store, thread, CAT, "Noted.")
    run = await completed_run(store, thread, "The safe opens with ZEBRA-7731.", "Noted too.")
    await recalling.find("cat")
    await recalling.indexer.run_once()
    await store.forgetting.forget(SPACE, ForgetRequest(run_id=run.id))
    await recalling.indexer.run_once()
    assert await spaces(store) == []
    assert await recalling.texts("cat printer") != []
    assert "The safe opens with ZEBRA-7731." not in await recalling.texts("zebra safe")


async def test_a_rebuild_looks_at_each_thread_once(store: Store, clock: HeldClock) -> None:
    recalling = Recalling(store, clock)
    for number in range(6):
        await say(store, f"{CAT} {number}")
    await recalling.indexer.index_space(SPACE)
    await recalling.recall.rebuild(SPACE)
    index = store.recall_index
    taken: list[int] = []
    first: dict[RecallKind, int] = {}
    analysis = recalling.indexer.analysis
    while (batch := await index.pending(SPACE, limit=2, building=True, first=first)) is not None:
        taken += [move.key for move in batch.moves]
        first = {RecallKind.MESSAGE: batch.moves[-1].key}
        assert await index.add(SPACE, batch, await analysis.embed(analysis.split(batch.sources)))
    assert len(taken) == len(set(taken)) == 6
    assert await index.pending(SPACE, limit=2, building=True) is None
    assert await index.activate(SPACE)


async def test_the_epochs_of_replaced_and_dropped_indexes_are_not_known(store: Store, clock: HeldClock) -> None:
    recalling = Recalling(store, clock)
    thread = await say(store, CAT)
    await recalling.find("cat")
    state = await store.recall_index.prepare(SPACE, analyser=recalling.indexer.analysis.id, embedder=None)
    assert await store.recall_index.epochs([state.key, state.key + 1_000]) == {state.key: state.epoch}
    for run in (await store.runs.page(SPACE, where=None, limit=10)).items:
        await store.runs.end(SPACE, run.id)
        await store.forgetting.forget(SPACE, ForgetRequest(thread_id=thread))
    assert (await store.recall_index.epochs([state.key]))[state.key] > state.epoch
    await recalling.recall.evict_stale()
    assert await recalling.texts("cat") == []
    await store.spaces.delete(SPACE)
    assert await store.recall_index.epochs([state.key]) == {}
    assert await store.recall_index.epochs([]) == {}
