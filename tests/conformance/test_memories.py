"""Memories: kept once, never overwritten, replaced only by an explicit edge, trusted only as far as their author."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.domain.commit import Commit
from holdfast.domain.errors import Conflict, HoldfastError, IdTaken, Invalid, NotFound, TooLarge
from holdfast.domain.ids import MemoryId, MessageId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.memory import (
    Memory,
    MemoryEntity,
    MemoryFilter,
    MemoryOrigin,
    MemoryPatch,
    MemoryRelation,
    MemorySource,
    MemoryStatus,
    MemoryType,
    NewMemory,
    SourceKind,
    TimelineQuery,
    memory_digest,
)
from holdfast.domain.message import Message
from holdfast.domain.new_run import NewRun
from holdfast.domain.untrusted import Taint, TaintSource, inherited_taint
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE, assistant, claim, finish, new_run, new_thread, user
from tests.conformance.conftest import OTHER, SPACE


def fact(text: str = "Ann likes tea", **fields: Any) -> NewMemory:
    return NewMemory(**{"type": MemoryType.SEMANTIC, "text": text, **fields})


def by_agent(text: str, **fields: Any) -> NewMemory:
    return fact(text, **{"origin": MemoryOrigin.AGENT, "agent": "helper", **fields})


async def kept(store: Store, text: str = "Ann likes tea", **fields: Any) -> Memory:
    return (await store.memories.put(SPACE, fact(text, **fields))).memory


@pytest.fixture
async def said(store: Store) -> Message:
    """A user message on a thread."""
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "I like green tea in the morning")
    return (await store.messages.of_run(SPACE, run.id))[0]


def source(message: Message, **fields: Any) -> MemorySource:
    return MemorySource(thread_id=message.thread_id, message_id=message.id, **fields)


async def test_a_memory_is_read_back_unchanged(store: Store, said: Message) -> None:
    new = fact(
        "Ann trinkt grünen Tee · 緑茶",
        id=MemoryId("mem_own"),
        title="Tea",
        category="food",
        importance=0.0,
        tags=["tea", 'a"b%_!'],
        standing=True,
        occurred_from=Instant("2026-01-31T12:00:00+01:00"),
        occurred_until=Instant("2026-02-01T00:00:00Z"),
        valid_from=Instant("2026-01-01T00:00:00.000Z"),
        expires_at=Instant("2031-01-01T00:00:00.000Z"),
        taint=["web:example.com"],
        author="ann",
        thread_id=said.thread_id,
        run_id=said.run_id,
        sources=[source(said, start=2, end=16)],
        entities=[MemoryEntity(label="Ann", kind="person", role="subject")],
        relations=[MemoryRelation(subject="Ann", predicate="likes", object="green tea", weight=0.5)],
    )
    made = await store.memories.put(SPACE, new)
    assert made.created and made.duplicates == []
    memory = made.memory
    assert (memory.text, memory.importance, memory.tags) == (new.text, 0.0, ["tea", 'a"b%_!'])
    assert (memory.occurred_from, memory.occurred_until) == ("2026-01-31T11:00:00.000Z", "2026-02-01T00:00:00.000Z")
    assert memory.sources == [source(said, sequence=said.sequence, start=2, end=16)]
    assert (memory.status, memory.version, memory.superseded_by) == (MemoryStatus.ACTIVE, 1, None)
    assert await store.memories.get(SPACE, memory.id) == memory
    assert await store.memories.standing(SPACE) == [memory]
    assert (await store.memories.page(SPACE, where=MemoryFilter(tag='a"b%_!', category="food"))).items == [memory]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"text": ""}, Invalid),
        ({"text": " \n"}, Invalid),
        ({"text": "x" * 4001}, TooLarge),
        ({"text": "a\x00b"}, Invalid),
        ({"text": "\ud800"}, Invalid),
        ({"importance": 1.5}, Invalid),
        ({"importance": float("nan")}, Invalid),
        ({"tags": [""]}, Invalid),
        ({"tags": ["t"] * 21}, Invalid),
        ({"id": "mem x"}, Invalid),
        ({"id": "mem_1", "supersedes": ["mem_1"]}, Invalid),
        ({"supersedes": ["mem_1", "mem_1"]}, Invalid),
        ({"supersedes": ["mem_missing"]}, NotFound),
        ({"expires_at": "tomorrow"}, Invalid),
        ({"occurred_from": "2026-02-01T00:00:00Z", "occurred_until": "2026-01-01T00:00:00Z"}, Invalid),
        ({"entities": [MemoryEntity(label=" ")]}, Invalid),
        ({"relations": [MemoryRelation(subject="a", predicate="", object="b")]}, Invalid),
        ({"sources": [MemorySource(thread_id=ThreadId("thr_x"), message_id=MessageId("msg_x"))]}, NotFound),
        ({"sources": [MemorySource(thread_id=ThreadId("t"), message_id=MessageId("m"), start=1)]}, Invalid),
    ],
)
async def test_an_invalid_memory_is_refused_and_nothing_is_kept(
    store: Store, fields: dict[str, Any], error: type[HoldfastError]
) -> None:
    with pytest.raises(error):
        await store.memories.put(SPACE, fact(**fields))
    assert (await store.memories.page(SPACE)).items == []


async def test_a_quote_must_be_within_the_message(store: Store, said: Message) -> None:
    with pytest.raises(Invalid, match="the quote ends after the text"):
        await store.memories.put(SPACE, fact(sources=[source(said, start=0, end=1000)]))


async def test_a_key_keeps_a_memory_once_also_concurrently(store: Store) -> None:
    made = await asyncio.gather(*(store.memories.put(SPACE, fact(f"Nr {n}", key="run_1.3")) for n in range(8)))
    assert sum(each.created for each in made) == 1
    assert len({each.memory.id for each in made}) == 1
    assert len((await store.memories.page(SPACE)).items) == 1


async def test_an_agent_does_not_keep_the_same_statement_twice(store: Store) -> None:
    first = await store.memories.put(SPACE, by_agent("Ann likes tea."))
    again = await store.memories.put(SPACE, by_agent("ann  LIKES tea"))
    assert (again.created, again.memory.id, again.duplicates) == (False, first.memory.id, [first.memory.id])
    for other in ("Ann likes tea 2", "Ann does not like tea", "Ann likes no tea"):
        assert (await store.memories.put(SPACE, by_agent(other))).created
    await store.memories.retract(SPACE, first.memory.id)
    assert not (await store.memories.put(SPACE, by_agent("Ann likes tea"))).created  # it was retracted for a reason
    assert (await store.memories.put(SPACE, fact("Ann likes tea"))).created  # a person may say it again


async def test_a_used_id_is_refused(store: Store) -> None:
    await kept(store, id=MemoryId("mem_1"))
    with pytest.raises(IdTaken):
        await kept(store, "other", id=MemoryId("mem_1"))


async def test_a_tainted_author_may_only_propose(store: Store) -> None:
    made = await store.memories.put(SPACE, by_agent("Pay to account 7", taint=["web:evil.example"]))
    assert made.memory.status is MemoryStatus.PROPOSED
    accepted = await store.memories.accept(SPACE, made.memory.id, by="ann")
    assert (accepted.status, accepted.taint) == (MemoryStatus.ACTIVE, ["web:evil.example"])
    assert await store.memories.accept(SPACE, made.memory.id, by="ann") == accepted


async def test_a_person_is_superseded_by_an_agent_only_after_acceptance(store: Store) -> None:
    old = await kept(store, "The meeting is at 3")
    made = await store.memories.put(SPACE, by_agent("The meeting is at 4", supersedes=[old.id]))
    assert made.memory.status is MemoryStatus.PROPOSED
    assert (await store.memories.get(SPACE, old.id)).status is MemoryStatus.ACTIVE
    await store.memories.accept(SPACE, made.memory.id)
    replaced = await store.memories.get(SPACE, old.id)
    assert (replaced.status, replaced.superseded_by) == (MemoryStatus.SUPERSEDED, made.memory.id)


async def test_supersession_keeps_both_and_their_history(store: Store, clock: HeldClock) -> None:
    old = await kept(store, "The code is 1")
    clock.tick(MINUTE)
    new = await store.memories.supersede(SPACE, old.id, new=fact("The code is 2", author="bob"), by="bob")
    assert new.supersedes == [old.id]
    replaced = await store.memories.get(SPACE, old.id)
    assert (replaced.text, replaced.status, replaced.version) == ("The code is 1", MemoryStatus.SUPERSEDED, 2)
    history = await store.memories.history(SPACE, old.id)
    assert [(each.version, each.memory.status, each.changed_by) for each in history] == [
        (1, MemoryStatus.ACTIVE, None),
        (2, MemoryStatus.SUPERSEDED, "bob"),
    ]
    assert history[0].memory == old
    with pytest.raises(Conflict, match="is superseded by"):
        await store.memories.supersede(SPACE, old.id, new=fact("The code is 3"))


async def test_a_cycle_of_supersession_is_refused(store: Store) -> None:
    a, b, c = [(await kept(store, text)).id for text in ("a", "b", "c")]
    with pytest.raises(Invalid):
        await store.memories.supersede(SPACE, a, new=a)
    await store.memories.supersede(SPACE, a, new=b)
    await store.memories.supersede(SPACE, b, new=c)
    with pytest.raises(Conflict):
        await store.memories.supersede(SPACE, c, new=a)
    assert (await store.memories.get(SPACE, c)).status is MemoryStatus.ACTIVE


async def test_racing_supersessions_never_make_a_cycle(store: Store) -> None:
    a, b, c = [(await kept(store, text)).id for text in ("a", "b", "c")]
    pairs = [(a, b), (b, c), (c, a)]
    await asyncio.gather(*(store.memories.supersede(SPACE, old, new=new) for old, new in pairs), return_exceptions=True)
    after = {memory.id: memory.superseded_by for memory in await store.memories.get_many(SPACE, [a, b, c])}
    assert any(each is None for each in after.values())
    assert sum(each is not None for each in after.values()) >= 1


async def test_an_update_adds_a_version(store: Store) -> None:
    memory = await kept(store, "The code is 1")
    changed = await store.memories.update(SPACE, memory.id, MemoryPatch(text="The code is 2", tags=["x"]), by="bob")
    assert (changed.text, changed.tags, changed.version) == ("The code is 2", ["x"], 2)
    with pytest.raises(Conflict, match="version 2"):
        await store.memories.update(SPACE, memory.id, MemoryPatch(text="late"), version=1)
    with pytest.raises(Invalid):
        await store.memories.update(SPACE, memory.id, MemoryPatch())
    with pytest.raises(Invalid):
        await store.memories.update(SPACE, memory.id, MemoryPatch(text=""))
    same = await store.memories.update(SPACE, memory.id, MemoryPatch(tags=["x"]))
    assert same.version == 2
    assert [each.memory.text for each in await store.memories.history(SPACE, memory.id)] == [
        "The code is 1",
        "The code is 2",
    ]


async def test_a_retracted_memory_stays_readable(store: Store) -> None:
    memory = await kept(store, standing=True)
    assert (await store.memories.retract(SPACE, memory.id, by="ann")).status is MemoryStatus.RETRACTED
    assert (await store.memories.get(SPACE, memory.id)).text == memory.text
    assert await store.memories.standing(SPACE) == []
    with pytest.raises(Conflict):
        await store.memories.accept(SPACE, memory.id)


async def test_an_expired_memory_stands_no_more(store: Store, clock: HeldClock) -> None:
    await kept(store, standing=True, expires_at=Instant("2000-01-01T00:00:00Z"))
    assert await store.memories.standing(SPACE) == []


async def test_pages_go_from_the_newest_to_the_oldest(store: Store) -> None:
    ids = [(await kept(store, f"fact {n}")).id for n in range(5)]
    seen: list[MemoryId] = []
    cursor = None
    while True:
        page = await store.memories.page(SPACE, limit=2, cursor=cursor)
        seen += [memory.id for memory in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == ids[::-1]
    assert [record.memory.id for record in (await store.memory_archive.export(SPACE)).items] == ids


async def test_provenance_names_the_messages_with_their_quotes(store: Store, said: Message) -> None:
    quote = source(said, start=2, end=16)
    doubt = source(said, kind=SourceKind.CONTRADICTS)
    old = await kept(store, "Ann likes tea", sources=[quote])
    new = await kept(store, "Ann likes green tea", sources=[quote, doubt], supersedes=[old.id])
    found = await store.memory_graph.provenance(SPACE, new.id)
    assert found.memory == new
    assert [(node.id, node.text[2:16], node.start, node.end) for node in found.messages[:1]] == [
        (said.id, "like green tea", 2, 16)
    ]
    assert [node.kind for node in found.messages] == [SourceKind.SUPPORTS, SourceKind.CONTRADICTS]
    assert [memory.id for memory in found.supersedes] == [old.id]
    back = await store.memory_graph.provenance(SPACE, old.id)
    assert back.superseded_by is not None and back.superseded_by.id == new.id


async def test_a_walk_goes_by_depth_predicate_and_id(store: Store, said: Message) -> None:
    entity = MemoryEntity(label="Ann", kind="person")
    one = await kept(store, "Ann likes tea", entities=[entity], sources=[source(said)])
    two = await kept(
        store,
        "Ann lives in Kyoto",
        entities=[MemoryEntity(label="ＡＮＮ")],
        relations=[MemoryRelation(subject="Ann", predicate="lives_in", object="Kyoto")],
    )
    hits = await store.memory_graph.walk(SPACE, "ann")
    assert (hits[0].depth, hits[0].via_predicate) == (0, None)
    assert [hit.depth for hit in hits] == sorted(hit.depth for hit in hits)
    near = [(hit.via_predicate, hit.node.id) for hit in hits if hit.depth == 1]
    assert near == sorted(near, key=lambda each: (each[0] or "", each[1]))
    assert {one.id, two.id} <= {hit.node.id for hit in hits}
    assert said.id in {hit.node.id for hit in hits if hit.depth == 2}
    only = await store.memory_graph.walk(SPACE, one.id, relation_types=["supports"], max_depth=4)
    assert [hit.node.id for hit in only] == [one.id, said.id]
    assert len(await store.memory_graph.walk(SPACE, one.id, limit=2)) == 2
    assert [hit.node.id for hit in await store.memory_graph.walk(SPACE, said.id, max_depth=1)] == [said.id, one.id]
    for bad in ({"max_depth": 5}, {"limit": 0}, {"limit": 201}):
        with pytest.raises(Invalid):
            await store.memory_graph.walk(SPACE, one.id, **bad)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        await store.memory_graph.walk(SPACE, "nobody")
    with pytest.raises(NotFound):
        await store.memory_graph.walk(OTHER, "Ann")


async def test_a_timeline_orders_by_what_happened(store: Store, said: Message, clock: HeldClock) -> None:
    early = await kept(store, "She moved", occurred_from=Instant("1999-05-01T00:00:00Z"))
    clock.tick(MINUTE)
    late = await kept(store, "She works", entities=[MemoryEntity(label="Ann")], sources=[source(said)])
    found = await store.memory_graph.timeline(SPACE, TimelineQuery())
    assert [memory.id for memory in found.memories] == [early.id, late.id]
    assert [node.id for node in found.messages] == [said.id]
    back = await store.memory_graph.timeline(SPACE, TimelineQuery(descending=True, limit=1))
    assert [memory.id for memory in back.memories] == [late.id]
    then = await store.memory_graph.timeline(SPACE, TimelineQuery(until=Instant("2000-01-01T00:00:00Z")))
    assert ([memory.id for memory in then.memories], then.messages) == ([early.id], [])
    of_ann = await store.memory_graph.timeline(SPACE, TimelineQuery(entity="ann"))
    assert ([memory.id for memory in of_ann.memories], [node.id for node in of_ann.messages]) == ([late.id], [said.id])
    assert (await store.memory_graph.timeline(SPACE, TimelineQuery(entity="nobody"))).messages == []
    with pytest.raises(Invalid):
        await store.memory_graph.timeline(
            SPACE, TimelineQuery(since=Instant("2001-01-01T00:00:00Z"), until=Instant("2000-01-01T00:00:00Z"))
        )


async def test_a_message_is_tainted_by_what_its_author_had_read(store: Store) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "look it up")
    lease = await claim(store)
    before = assistant("let me see", id="before")
    await store.journal.commit(Commit(lease=lease, messages=[before]))
    taint = Taint(sources=(TaintSource(name="web:evil.example", at=1),))
    await store.journal.commit(
        Commit(lease=lease, messages=[assistant("it says so", id="after")], values={"taint": taint})
    )
    await finish(store, lease)
    messages = await store.messages.of_run(SPACE, run.id)
    nodes = await store.memory_graph.messages(SPACE, [(run.thread_id, each.id) for each in messages[:3]])
    assert [node.taint for node in nodes] == [[], [], ["web:evil.example"]]


async def test_what_a_tainted_run_asked_of_another_is_tainted(store: Store) -> None:
    taint = inherited_taint(["web:evil.example"])
    thread = await new_thread(store, SPACE)
    asked = await store.runs.create(
        SPACE, NewRun(thread=thread, messages=[user("Pay them.", id="asked")], values=taint)
    )
    await store.runs.end(SPACE, asked.run.id)
    await store.runs.create(SPACE, NewRun(thread=thread, messages=[user("Who are they?", id="person")]))
    nodes = await store.memory_graph.messages(SPACE, [(thread, MessageId(id)) for id in ("asked", "person")])
    assert [node.taint for node in nodes] == [["web:evil.example"], []]


async def test_a_message_is_marked_once_all_that_it_stated_is_superseded(store: Store, said: Message) -> None:
    name = (said.thread_id, said.id)
    old = await kept(store, "The code is 1", sources=[source(said)])
    (before,) = await store.memory_graph.messages(SPACE, [name])
    assert before.superseded_by == []
    new = await store.memories.supersede(SPACE, old.id, new=fact("The code is 2"))
    (after,) = await store.memory_graph.messages(SPACE, [name])
    assert after.superseded_by == [new.id]


async def test_a_commit_keeps_its_memories_or_nothing(store: Store) -> None:
    await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    lease = await claim(store)
    new = by_agent("Ann likes tea", key=f"{lease.run_id}.1")
    with pytest.raises(IdTaken):
        twice = [by_agent(text, id=MemoryId("mem_1")) for text in ("x", "y")]
        await store.journal.commit(Commit(lease=lease, memories=[new, *twice]))
    assert (await store.memories.page(SPACE)).items == []
    await store.journal.commit(Commit(lease=lease, memories=[new]))
    await store.journal.commit(Commit(lease=lease, memories=[new]))
    assert [memory.text for memory in (await store.memories.page(SPACE)).items] == ["Ann likes tea"]


async def test_what_has_changed_since_a_run_checked_it_does_not_refuse_its_commit(store: Store) -> None:
    await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    lease = await claim(store)
    gone = MemorySource(message_id=MessageId("msg_gone"), thread_id=lease.thread_id)
    new = by_agent("Ann likes coffee", supersedes=[MemoryId("mem_gone")], sources=[gone])
    await store.journal.commit(Commit(lease=lease, memories=[new]))
    (kept,) = (await store.memories.page(SPACE)).items
    assert (kept.status, kept.supersedes, kept.sources) == (MemoryStatus.PROPOSED, [], [])


@given(words=st.lists(st.sampled_from(["tea", "not", "3", "4", "茶", "no"]), min_size=1, max_size=6))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_digest_ignores_case_and_punctuation_and_nothing_else(words: Sequence[str]) -> None:
    plain = memory_digest(" ".join(words))
    assert memory_digest("  ,".join(word.upper() for word in words) + "!") == plain
    assert memory_digest(" ".join([*words, "5"])) != plain
