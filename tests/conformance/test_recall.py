"""Recall: what was said is found by the next call, in its own space only, and the index equals a rebuild."""

import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.errors import HoldfastError, Invalid, NotFound, TooLarge
from holdfast.domain.forgetting import ForgetRequest
from holdfast.domain.ids import MessageId, SpaceId, ThreadId
from holdfast.domain.instant import instant
from holdfast.domain.memory import MemoryPatch, MemorySource, MemoryType, NewMemory
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.recall import RecallHit, RecallKind, RecallMode, RecallQuery, RecallResult
from holdfast.domain.thread import ThreadPatch, ThreadStatus
from holdfast.memory import indexing
from holdfast.memory.indexing import Analysis, Indexer
from holdfast.memory.recall import SpaceRecall
from holdfast.memory.static_vectors import static_vectors
from holdfast.ports.memory import Embedder
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import assistant, new_run, new_thread, result, user
from tests.builders import call as tool_call
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import completed_run
from tests.conformance.recall_rows import index_content

CAT = "The cat is called Miso and sleeps on the printer."
DOG = "Our dog Bruno barks at the postman."


class Recalling:
    """Search and index of one process."""

    def __init__(
        self,
        store: Store,
        clock: HeldClock,
        *,
        embedder: Embedder | None = None,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        tables = static_vectors()
        analysis = Analysis(embedder or tables, tables, redact)
        self.recall = SpaceRecall(store.recall_index, analysis, clock)
        self.indexer = Indexer(store.recall_index, analysis)

    async def find(self, text: str, space: SpaceId = SPACE, **filters: Any) -> RecallResult:
        return await self.recall.search(space, RecallQuery(text=text, **filters))

    async def texts(self, text: str, space: SpaceId = SPACE, **filters: Any) -> list[str]:
        return [hit.text for hit in (await self.find(text, space, **filters)).hits]


@pytest.fixture
async def recalling(store: Store, clock: HeldClock) -> Recalling:
    recalling = Recalling(store, clock)
    await recalling.indexer.index_space(SPACE)  # from its first search on, a space is indexed
    return recalling


async def say(store: Store, *said: str, space: SpaceId = SPACE) -> ThreadId:
    thread = await new_thread(store, space)
    await new_run(store, space, thread, *said)
    return thread


async def both(recalling: Recalling, text: str, **filters: Any) -> list[list[RecallHit]]:
    """Search before and after indexing."""
    tail = (await recalling.find(text, **filters)).hits
    await recalling.indexer.run_once()
    return [tail, (await recalling.find(text, **filters)).hits]


async def test_what_was_said_is_found_before_and_after_it_is_indexed(store: Store, recalling: Recalling) -> None:
    thread = await say(store, CAT, DOG)
    for hits in await both(recalling, "What is the name of the cat?"):
        assert hits[0].text == CAT
        assert (hits[0].kind, hits[0].thread_id, hits[0].sequence) == (RecallKind.MESSAGE, thread, 0)
        assert hits[0].role is Role.USER
        parts = hits[0].parts
        named = (parts.lexical, parts.vector, parts.tokens, parts.neighbours, parts.speaker, parts.memory)
        assert sum(named) == pytest.approx(hits[0].score, abs=1e-4)
    assert (await recalling.recall.status(SPACE)).pending == 0
    assert (await recalling.recall.status(SPACE)).items == 2


async def test_what_is_indexed_or_rebuilt_during_a_search_is_found(
    store: Store, recalling: Recalling, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(store, CAT, "Which cat sleeps where?", "A cat is a cat.")
    quiet = await recalling.find("the cat")
    meanwhile: list[Callable[[], Awaitable[None]]] = [
        recalling.indexer.run_once,
        lambda: rebuild(recalling),
        lambda: rebuild(recalling),
    ]
    snapshot = store.recall_index.snapshot

    async def then_indexed(*args: Any, **names: Any) -> Any:
        taken = await snapshot(*args, **names)
        if names.get("terms") and meanwhile:
            await meanwhile.pop(0)()
        return taken

    monkeypatch.setattr(store.recall_index, "snapshot", then_indexed)
    for left in (2, 0):  # the rebuilt index is replaced again before the second try
        found = await recalling.find("the cat")
        assert [hit.text for hit in found.hits] == [hit.text for hit in quiet.hits]
        assert found.confidence == pytest.approx(quiet.confidence, abs=0.02)
        assert len(meanwhile) == left


async def rebuild(recalling: Recalling) -> None:
    """Build the index again, swap it in, and drop the old one."""
    await recalling.recall.rebuild(SPACE)
    await recalling.indexer.run_once()


async def test_the_tail_scores_as_the_index_does(store: Store, recalling: Recalling) -> None:
    await say(store, CAT, DOG, "The printer is broken.", "Bring coffee to the meeting on Friday.")
    tail, indexed = await both(recalling, "printer cat")
    assert [hit.text for hit in tail] == [hit.text for hit in indexed]
    assert [hit.score for hit in tail] == pytest.approx([hit.score for hit in indexed], abs=0.02)


async def test_a_word_without_spaces_is_found_in_japanese(store: Store, recalling: Recalling) -> None:
    await say(store, "猫の名前はミソです。", "犬は郵便屋さんに吠えます。", "2012年に東京へ引っ越しました。")
    for question, found in (("猫は何という名前?", "ミソ"), ("いつ東京に来た?", "2012")):
        for hits in await both(recalling, question):
            assert found in hits[0].text


async def test_a_long_message_is_found_by_one_of_its_passages(store: Store, recalling: Recalling) -> None:
    filler = "Nothing happened on that day, and nobody said anything about it at all. " * 40
    await say(store, f"{filler}\n\nThe password of the guest network is written under the kettle.\n\n{filler}")
    for hits in await both(recalling, "where is the guest network password?"):
        assert "under the kettle" in hits[0].text
        assert len(hits[0].text) <= 900
        assert hits[0].start > 1_000


async def test_nothing_of_another_space_is_found(store: Store, recalling: Recalling) -> None:
    await say(store, CAT)
    other = await say(store, DOG, space=OTHER)
    for hits in await both(recalling, "dog Bruno postman cat"):
        assert [hit.text for hit in hits] == [CAT]
    with pytest.raises(NotFound):
        await recalling.find("dog", thread=other)
    with pytest.raises(NotFound):
        await recalling.find("dog", SpaceId("nowhere"))


async def test_filters_narrow_a_search(store: Store, clock: HeldClock, recalling: Recalling) -> None:
    first = await new_thread(store, SPACE)
    await completed_run(store, first, "Tell me about the cat.", "The cat sleeps.")
    later = instant(clock.now() + 1_000)
    clock.tick(timedelta(minutes=5))
    second = await say(store, "The cat is awake now.")
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {"Tell me about the cat.", "The cat sleeps.", "The cat is awake now."}),
        ({"thread": first}, {"Tell me about the cat.", "The cat sleeps."}),
        ({"thread": second}, {"The cat is awake now."}),
        ({"roles": frozenset({Role.ASSISTANT})}, {"The cat sleeps."}),
        ({"since": later}, {"The cat is awake now."}),
        ({"until": later}, {"Tell me about the cat.", "The cat sleeps."}),
        ({"kinds": frozenset({RecallKind.MEMORY})}, set()),
    ]
    for filters, expected in cases:
        assert set(await recalling.texts("cat", **filters)) == expected
    await recalling.indexer.run_once()
    for filters, expected in cases:
        assert set(await recalling.texts("cat", **filters)) == expected


async def test_a_mode_uses_its_channel_only(store: Store, recalling: Recalling) -> None:
    await say(store, "I adopted a kitten last week.", "The invoice is due on Monday.")
    for _ in range(2):
        assert await recalling.texts("cat", mode=RecallMode.KEYWORD) == []
        found = (await recalling.find("a young cat", mode=RecallMode.SEMANTIC)).hits
        assert found[0].text == "I adopted a kitten last week."
        assert found[0].parts.lexical == 0
        by_word = (await recalling.find("invoice", mode=RecallMode.KEYWORD)).hits
        assert [hit.text for hit in by_word] == ["The invoice is due on Monday."]
        assert by_word[0].parts.cosine is None
        await recalling.indexer.run_once()


async def test_an_answer_is_found_by_its_question(store: Store, recalling: Recalling) -> None:
    thread = await new_thread(store, SPACE)
    await completed_run(store, thread, "Which colour do you prefer for the bicycle shed?", "Green, I think.")
    await say(store, "Completely unrelated.", "Also about something else.")
    for hits in await both(recalling, "colour of the bicycle shed"):
        assert hits[1].text == "Green, I think."
        assert hits[1].parts.neighbours > 0


async def test_memories_are_found_with_their_current_text_and_status(
    where: str | Path, store: Store, recalling: Recalling
) -> None:
    kept = (await store.memories.put(SPACE, NewMemory(type=MemoryType.SEMANTIC, text="Miso eats only salmon."))).memory
    for hits in await both(recalling, "what does Miso eat"):
        assert [(hit.kind, hit.id, hit.status) for hit in hits] == [(RecallKind.MEMORY, kept.id, "active")]
    await store.memories.update(SPACE, kept.id, MemoryPatch(text="Miso eats only tuna."))
    for hits in await both(recalling, "what does Miso eat"):
        assert [hit.text for hit in hits] == ["Miso eats only tuna."]
    await store.memories.retract(SPACE, kept.id)
    for hits in await both(recalling, "what does Miso eat"):
        assert hits == []
    assert len((await recalling.find("Miso", inactive=True)).hits) == 1
    assert await index_content(where) == await rebuilt_content(where, store, recalling)


async def test_a_memory_expires_in_recall(store: Store, clock: HeldClock, recalling: Recalling) -> None:
    expires = instant(clock.now() + 60_000)
    await store.memories.put(
        SPACE, NewMemory(type=MemoryType.EPISODE, text="The guest code is 7731.", expires_at=expires)
    )
    await recalling.indexer.run_once()
    assert await recalling.texts("guest code") == ["The guest code is 7731."]
    clock.tick(timedelta(minutes=2))
    assert await recalling.texts("guest code") == []


async def test_a_memory_lifts_the_message_it_came_from(store: Store, recalling: Recalling) -> None:
    thread = await new_thread(store, SPACE)
    said = [user("It sleeps there all day.", id="said"), user("It eats a lot.", id="other")]
    await store.runs.create(SPACE, NewRun(thread=thread, messages=said))
    source = MemorySource(thread_id=thread, message_id=MessageId("said"))
    await store.memories.put(
        SPACE, NewMemory(type=MemoryType.SEMANTIC, text="The cat Miso sleeps on the printer.", sources=[source])
    )
    for hits in await both(recalling, "cat Miso printer"):
        by_id = {hit.id: hit for hit in hits}
        assert by_id["said"].parts.memory > 0
        assert "other" not in by_id or by_id["other"].parts.memory == 0


async def test_what_is_left_out(store: Store, recalling: Recalling) -> None:
    thread = await new_thread(store, SPACE)
    messages = [
        NewMessage(role=Role.SYSTEM, content="zebra in the system prompt"),
        user("Look it up."),
        assistant("", tool_call("one", "read_file")),
        result(
            "one", "zebra in a file. " + "padding word. " * 400 + "giraffe in the middle. " + "padding word. " * 400
        ),
        assistant("Done."),
    ]
    await store.runs.create(SPACE, NewRun(thread=thread, messages=messages))
    for _ in range(2):
        assert [hit.role for hit in (await recalling.find("zebra", mode=RecallMode.KEYWORD)).hits] == [Role.TOOL]
        assert await recalling.texts("giraffe", mode=RecallMode.KEYWORD) == []
        await recalling.indexer.run_once()


async def test_a_revised_message_is_found_only_if_asked_for(store: Store, recalling: Recalling) -> None:
    thread = await new_thread(store, SPACE)
    first = await store.runs.create(
        SPACE, NewRun(thread=thread, messages=[user("Meet at noon, platform nine.", id="a")])
    )
    await store.runs.end(SPACE, first.run.id)
    await recalling.indexer.run_once()
    revision = NewMessage(role=Role.USER, content="Meet at two, platform nine.", revises=MessageId("a"))
    await store.runs.create(SPACE, NewRun(thread=thread, base=None, messages=[revision]))
    for hits in await both(recalling, "platform nine"):
        assert [hit.text for hit in hits] == ["Meet at two, platform nine."]
    assert len(await recalling.texts("platform nine", revised=True)) == 2


async def test_a_long_text_is_redacted_once_per_reading_and_never_on_the_event_loop(
    store: Store, clock: HeldClock
) -> None:
    threads: list[int] = []

    def redact(text: str) -> str:
        threads.append(threading.get_ident())
        return text

    redacting = Recalling(store, clock, redact=redact)
    await say(store, f"{CAT} " * 500)
    tail, indexed = await both(redacting, "cat")
    assert len(tail) == len(indexed) == 1
    # Two searches of one hit, the first of them with the tail, and the indexer: split, embed, show.
    assert len(threads) <= 6
    assert threading.get_ident() not in threads


async def test_secrets_are_redacted_before_they_are_indexed(where: str | Path, store: Store, clock: HeldClock) -> None:
    redacting = Recalling(store, clock, redact=lambda text: text.replace("hunter2", "[redacted]"))
    await say(store, "My password is hunter2, do not tell.")
    for hits in await both(redacting, "password"):
        assert [hit.text for hit in hits] == ["My password is [redacted], do not tell."]
    assert await redacting.texts("hunter2", mode=RecallMode.KEYWORD) == []
    assert "hunter2" not in str(await index_content(where))


async def test_files_are_found_until_they_are_dropped(store: Store, clock: HeldClock, recalling: Recalling) -> None:
    await recalling.recall.put_file(SPACE, "MEMORY.md", "# Notes\n\nThe cat is called Miso.", at=clock.now())
    for hits in await both(recalling, "cat Miso"):
        assert [(hit.kind, hit.id) for hit in hits] == [(RecallKind.FILE, "MEMORY.md")]
    await recalling.recall.put_file(SPACE, "MEMORY.md", "# Notes\n\nThe dog is called Bruno.", at=clock.now())
    for hits in await both(recalling, "cat Miso dog Bruno"):
        assert len(hits) == 1 and "Bruno" in hits[0].text
    await recalling.recall.drop_file(SPACE, "MEMORY.md")
    assert await recalling.texts("dog Bruno") == []
    assert await recalling.texts("dog Bruno", OTHER) == []


async def test_what_is_deleted_is_not_found(where: str | Path, store: Store, recalling: Recalling) -> None:
    kept = await say(store, "The cat stays.")
    gone = await say(store, "The cat leaves.")
    run = await new_run(store, SPACE, kept, "The cat is deleted.")
    for each in await _runs(store):
        await store.runs.end(SPACE, each)
    await recalling.indexer.run_once()
    assert len(await recalling.texts("cat")) == 3
    await store.threads.update(SPACE, gone, ThreadPatch(status=ThreadStatus.DELETED))
    await store.runs.delete(SPACE, run.id)
    assert await recalling.texts("cat") == ["The cat stays."]
    await recalling.indexer.run_once()
    assert await recalling.texts("cat") == ["The cat stays."]
    assert await index_content(where) == await rebuilt_content(where, store, recalling)
    await store.spaces.delete(OTHER)
    await store.spaces.delete(SPACE)
    assert await index_content(where) == {}


async def test_forgetting_leaves_no_trace_in_the_index(where: str | Path, store: Store, recalling: Recalling) -> None:
    thread = await new_thread(store, SPACE)
    run = await completed_run(
        store, thread, "The safe opens with ZEBRA-7731 today.", "Noted: The safe opens with ZEBRA-7731 today."
    )
    await say(store, "The zoo is closed.")
    await recalling.indexer.run_once()
    assert await recalling.texts("zebra 7731 safe")
    receipt = await store.forgetting.forget(SPACE, ForgetRequest(run_id=run.id))
    assert (receipt.messages, receipt.items) == (2, 2)
    assert await recalling.texts("zebra 7731", mode=RecallMode.KEYWORD) == []
    await recalling.indexer.run_once()
    assert await recalling.texts("zebra 7731", mode=RecallMode.KEYWORD) == []
    content = await index_content(where)
    assert "zebra" not in str(content) and "7731" not in str(content)
    assert content == await rebuilt_content(where, store, recalling)


async def test_a_batch_that_was_read_before_forgetting_is_not_added(
    where: str | Path, store: Store, recalling: Recalling
) -> None:
    thread = await new_thread(store, SPACE)
    run = await completed_run(store, thread, "The safe opens with ZEBRA-7731.", "Noted.")
    await store.recall_index.prepare(SPACE, analyser=recalling.indexer.analysis.id, embedder=None)
    batch = await store.recall_index.pending(SPACE, limit=10)
    assert batch is not None
    passages = recalling.indexer.analysis.split(batch.sources)
    await store.forgetting.forget(SPACE, ForgetRequest(run_id=run.id))
    assert await store.recall_index.add(SPACE, batch, passages) is False
    await recalling.indexer.run_once()
    assert "zebra" not in str(await index_content(where))


async def test_of_two_indexers_one_moves_the_cursor(
    where: str | Path, store: Store, stores: list[Store], recalling: Recalling
) -> None:
    await say(store, CAT, DOG)
    index = stores[-1].recall_index
    analysis = recalling.indexer.analysis
    await index.prepare(SPACE, analyser=analysis.id, embedder=static_vectors().id)
    batch = await store.recall_index.pending(SPACE, limit=10)
    again = await index.pending(SPACE, limit=10)
    assert batch is not None and again is not None
    passages = await analysis.embed(analysis.split(batch.sources))
    assert await store.recall_index.add(SPACE, batch, passages) is True
    assert await index.add(SPACE, again, passages) is False
    assert await index_content(where) == await rebuilt_content(where, store, Recalling(store, HeldClock()))


async def test_another_embedder_is_swapped_in_while_search_goes_on(
    where: str | Path, store: Store, clock: HeldClock
) -> None:
    old = Recalling(store, clock)
    await say(store, CAT, DOG)
    await old.indexer.index_space(SPACE)
    new = Recalling(store, clock, embedder=LetterEmbedder())
    found = await new.find("cat printer")
    assert found.hits[0].text == CAT
    assert found.notice is not None and "rebuilt" in found.notice
    assert found.embedder is None
    await say(store, "The cat said so too.")
    await new.indexer.index_space(SPACE)
    found = await new.find("cat printer")
    assert (found.embedder, found.notice) == ("letters-1", None)
    status = await new.recall.status(SPACE)
    assert (status.embedder, status.rebuild, status.items) == ("letters-1", None, 3)
    while await store.recall_index.drop_replaced(limit=1):
        pass
    assert await index_content(where) == await rebuilt_content(where, store, new)


async def test_without_its_embedder_a_search_is_lexical_and_says_so(store: Store, clock: HeldClock) -> None:
    away = Recalling(store, clock, embedder=LetterEmbedder(fails=True))
    await say(store, CAT)
    found = await away.find("cat printer")
    assert [hit.text for hit in found.hits] == [CAT]
    assert found.embedder is None
    assert found.notice is not None and "away" in found.notice


async def test_a_bad_query_is_refused(store: Store, recalling: Recalling) -> None:
    await say(store, CAT)
    cases: list[tuple[dict[str, Any], type[HoldfastError]]] = [
        ({"text": ""}, Invalid),
        ({"text": "   "}, Invalid),
        ({"text": "x" * 100_000}, TooLarge),
        ({"text": "a\0b"}, Invalid),
        ({"text": "\ud800"}, Invalid),
        ({"text": "x", "limit": 0}, Invalid),
        ({"text": "x", "limit": 101}, Invalid),
    ]
    for fields, error in cases:
        with pytest.raises(error):
            await recalling.recall.search(SPACE, RecallQuery(**fields))
    assert await recalling.texts("?!… …") == []


async def rebuilt_content(where: str | Path, store: Store, recalling: Recalling) -> dict[str, Any]:
    """Return the content of the index after a rebuild."""
    await store.recall_index.rebuild(SPACE)
    await recalling.indexer.index_space(SPACE)
    while await store.recall_index.drop_replaced(limit=100):
        pass
    return await index_content(where)


async def _runs(store: Store) -> list[Any]:
    return [run.id for run in (await store.runs.page(SPACE, limit=100)).items]


class LetterEmbedder:
    """An embedder that counts letters."""

    id = "letters-1"
    dims = 26
    parts = (26,)

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails

    async def embed(self, texts: Any) -> Any:
        import numpy

        from holdfast.domain.errors import Unavailable

        if self._fails:
            raise Unavailable("the embedder is away")
        rows = numpy.zeros((len(texts), 26), dtype=numpy.float32)
        for row, text in zip(rows, texts, strict=True):
            for letter in text.lower():
                if "a" <= letter <= "z":
                    row[ord(letter) - 97] += 1
        return rows / numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


async def test_a_space_is_indexed_while_the_indexer_may(recalling: Recalling, store: Store) -> None:
    await say(store, "the kiln reached 1,240 degrees")
    await recalling.indexer.run_once(may_index=lambda space: False)
    assert (await recalling.recall.status(SPACE)).items == 0
    assert not recalling.recall.searched_lately(SPACE)
    assert await recalling.texts("kiln")
    await recalling.indexer.run_once(may_index=recalling.recall.searched_lately)
    assert (await recalling.recall.status(SPACE)).items == 1


async def test_a_space_that_falls_far_behind_is_indexed_although_the_process_is_busy(
    recalling: Recalling, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "MAX_POSTPONED_MESSAGES", 3)
    for number in range(5):
        await say(store, f"kiln {number}")
    assert await store.recall_index.behind(SPACE) == 5
    await recalling.indexer.run_once(may_index=lambda space: False)
    assert await store.recall_index.behind(SPACE) <= 3
