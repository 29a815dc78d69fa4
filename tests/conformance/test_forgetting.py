"""Forgetting: a forgotten text is in no row, and in no byte of a local database file."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.domain.artifact import ArtifactType, NewArtifact, NewFile
from holdfast.domain.commit import Commit, Lease
from holdfast.domain.context import (
    RECALL_VALUE,
    ContextSnapshot,
    RecalledMemory,
    SentSegment,
    recalled_memory,
    text_digest,
)
from holdfast.domain.errors import Invalid, NotFound, RunActive
from holdfast.domain.events import ToolCallArgs, ToolCallEnd, ToolCallResult, ToolCallStart
from holdfast.domain.events.custom import AgentLogged, to_custom
from holdfast.domain.forgetting import ForgetRequest, TextEraser, copies_to_find
from holdfast.domain.ids import InterruptId, MemoryId, MessageId, RunId, ToolCallId
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.memory import MemoryEntity, MemoryPatch, MemorySource, MemoryType, NewMemory
from holdfast.domain.message import Role
from holdfast.domain.recall import one_line
from holdfast.domain.reminder import NewReminder, TriggerType
from holdfast.domain.run import Move, Run, RunStatus, WaitsFor
from holdfast.memory.passages import split
from holdfast.store.spaces import add_grants, space_key
from holdfast.store.store import Store
from holdfast.store.transaction import Transaction
from holdfast.testing.clock import HeldClock
from tests.builders import assistant, call, claim, finish, new_run, new_thread, result, text_events
from tests.conformance.conftest import OTHER, SPACE, opened
from tests.conformance.tables import orphans_of, rows_of

SECRET = 'The safe in the "blue" room opens with ZEBRA-7731 and a key'
ECHO = "I noted that it opens with ZEBRA-7731"


async def secret_run(store: Store) -> Run:
    """A run with the secret in its input, events, values, contexts, tool call and output."""
    run = await new_run(store, SPACE, await new_thread(store, SPACE, "t"), f"Please note. {SECRET}")
    lease = await claim(store)
    calls = [call("call_1", "remember", text=SECRET)]
    context = snapshot(segments={"memories": f"What is known: {SECRET}"}, reminders=(SECRET,))
    call_id = ToolCallId("call_1")
    await store.journal.commit(
        Commit(
            lease=lease,
            messages=[assistant("", *calls, id="asks"), result("call_1", SECRET)],
            events=[
                ToolCallStart(tool_call_id=call_id, tool_call_name="remember", parent_message_id=MessageId("asks")),
                ToolCallArgs(tool_call_id=call_id, delta='{"text": "The safe in the'),
                ToolCallArgs(tool_call_id=call_id, delta=' \\"blue\\" room opens with ZEBRA-7731 and a key"}'),
                ToolCallEnd(tool_call_id=call_id),
                ToolCallResult(message_id=MessageId("told"), tool_call_id=call_id, content=SECRET),
                to_custom(AgentLogged(message=f"logged: {SECRET}")),
            ],
            values={"todo": {"items": [{"text": SECRET, "done": False}]}},
            contexts=[context],
            memories=[memory(lease)],
        )
    )
    await store.journal.commit(Commit(lease=lease, events=text_events("", id="x")[:0]))
    await finish(store, lease, ECHO)
    return await store.runs.get(SPACE, run.id)


def snapshot(*, segments: dict[str, str], reminders: tuple[str, ...] = ()) -> ContextSnapshot:
    return ContextSnapshot(
        step=1,
        model="m",
        segments=tuple(SentSegment(name=name, digest=text_digest(text), tokens=1) for name, text in segments.items()),
        conversation=(),
        reminders=reminders,
        tools=text_digest("[]"),
        tokens={},
        first_sequence=None,
        last_sequence=None,
        compaction_through=None,
        texts={text_digest(text): text for text in (*segments.values(), "[]")},
    )


def memory(lease: Lease) -> NewMemory:
    return NewMemory(
        type=MemoryType.SEMANTIC,
        text=SECRET,
        title="The ZEBRA-7731 safe",
        run_id=lease.run_id,
        thread_id=lease.thread_id,
        entities=[MemoryEntity(label="ZEBRA-7731")],
        key=f"{lease.run_id}.1",
    )


async def traces(where: str | Path, text: str) -> dict[str, list[Any]]:
    """Return the rows, by table, that hold a text."""
    tables = await rows_of(where)
    found = {
        name: [row for row in rows if any(text in str(value) for value in row.values())]
        for name, rows in tables.items()
    }
    return {name: rows for name, rows in found.items() if rows}


def bytes_of(where: str | Path) -> bytes:
    """Return the bytes of every file of a local database."""
    if isinstance(where, str):
        return b""
    return b"".join(path.read_bytes() for path in sorted(where.parent.glob(f"{where.name}*")))


async def test_forgetting_a_run_leaves_no_trace(store: Store, where: str | Path) -> None:
    run = await secret_run(store)
    other = await new_run(store, SPACE, await new_thread(store, SPACE, "u"), f'Ann said: "{SECRET}", I think')
    await finish(store, await claim(store), "fine")
    before = await traces(where, "ZEBRA-7731")
    assert {"messages", "events", "texts", "contexts", "run_values", "runs", "memories", "entities"} <= before.keys()
    if isinstance(where, Path):
        assert b"ZEBRA-7731" in bytes_of(where)
    dry = await store.forgetting.forget(SPACE, ForgetRequest(run_id=run.id, dry_run=True), by="ann")
    assert await traces(where, "ZEBRA-7731") == before
    receipt = await store.forgetting.forget(SPACE, ForgetRequest(run_id=run.id), by="ann")
    assert await traces(where, "ZEBRA-7731") == {}
    assert b"ZEBRA-7731" not in bytes_of(where)
    assert (receipt.memories, receipt.messages) == (dry.memories, dry.messages) == (1, 4)
    assert receipt.events >= 4 and receipt.copies >= 3
    assert await orphans_of(where) == {}
    messages = await store.messages.of_run(SPACE, run.id)
    assert {message.content for message in messages} == {"[forgotten]"}
    assert all(message.metadata["forgotten"]["by"] == "ann" for message in messages)
    assert [message.content for message in await store.messages.of_run(SPACE, other.id)][0] == (
        'Ann said: "[forgotten]", I think'
    )
    assert (await store.runs.get(SPACE, run.id)).output == "[forgotten]"
    events = await store.events.after(SPACE, run.id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    again = await store.forgetting.forget(SPACE, ForgetRequest(run_id=run.id), by="bob")
    assert (again.messages, again.memories) == (0, 0)


LONG = "Fuses: " + ", ".join(f"lane {number} has fuse {number * 37 % 101}" for number in range(120))
SHORT = "PIN: 4711"
QUOTED = [
    (LONG, LONG[:300]),  # a neighbour of what was found
    (LONG, one_line(LONG).removesuffix("…")),
    (LONG, LONG[slice(*split(LONG)[1])]),  # a passage that begins and ends within a sentence
    ("The  safe\topens with  ZEBRA-7731", "The safe opens with ZEBRA-7731"),
    (SHORT, SHORT),
]


@pytest.mark.parametrize(("said", "quoted"), QUOTED)
async def test_what_other_runs_recalled_of_a_forgotten_message_is_forgotten(
    store: Store, where: str | Path, said: str, quoted: str
) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE, "t"), said)
    await finish(store, await claim(store), "fine")
    message = (await store.messages.of_run(SPACE, run.id))[0]
    lines = (
        f"Known:\n- [mem_1 · 2026-01-01 · ann] kept\n- [{message.id} · 2026-01-01 · ann] {quoted}\n- [msg_2 · x] kept"
    )
    requests = f"- kept ({message.id}0 · 2026-01-01)\n- {quoted} ({message.id} · 2026-01-01)"
    await new_run(store, SPACE, await new_thread(store, SPACE, "u"), "hello")
    lease = await claim(store)
    recalled = RecalledMemory(recalled=lines, requests=requests)
    context = snapshot(segments={"memories": lines, "requests": requests})
    nodes = [{"id": message.id, "role": "user", "text": f'"{quoted}"'}, {"id": "msg_2", "text": "kept"}]
    found = msgspec.json.encode({"raw_hits": [{"node": node, "score": 1.0} for node in nodes]}).decode()
    await store.journal.commit(
        Commit(
            lease=lease,
            messages=[assistant("", call("call_1"), id="asks"), result("call_1", found)],
            events=[ToolCallResult(message_id=MessageId("told"), tool_call_id=ToolCallId("call_1"), content=found)],
            values={RECALL_VALUE: msgspec.to_builtins(recalled)},
            contexts=[context],
        )
    )
    await finish(store, lease, "fine")
    assert {"run_values", "texts"} <= (await traces(where, quoted[-8:])).keys()
    await store.forgetting.forget(SPACE, ForgetRequest(run_id=run.id))
    assert await traces(where, quoted[-8:]) == {}
    if isinstance(where, Path):
        assert quoted[-8:].encode() not in bytes_of(where)
    after = recalled_memory(await store.values.of_run(SPACE, lease.run_id))
    assert after.recalled.count("kept") == 2 and after.requests.count("kept") == 1
    (told,) = [each for each in await store.messages.of_run(SPACE, lease.run_id) if each.role is Role.TOOL]
    hits = msgspec.json.decode(str(told.content))["raw_hits"]
    assert [hit["node"]["text"].strip('"') for hit in hits] == ["[forgotten]", "kept"]


async def test_the_artifacts_and_grants_of_a_forgotten_run_hold_nothing_of_it(store: Store, where: str | Path) -> None:
    command = "echo the safe opens with ZEBRA-7731"
    run = await new_run(store, SPACE, await new_thread(store, SPACE, "t"), f"Please note. {SECRET}")
    lease = await claim(store)
    file = NewFile(name="safe.txt", content=f"kept\n{SECRET}\n".encode())
    artifacts = [
        NewArtifact(type=ArtifactType.DOC, title="Safe", content=f"kept\n{SECRET}\n"),
        NewArtifact(type=ArtifactType.DOC, title="Safe file", file=file),
    ]
    messages = [assistant("", call("call_1", "bash", command=command), id="asks"), result("call_1", "none")]
    await store.journal.commit(Commit(lease=lease, messages=messages, artifacts=artifacts))
    await finish(store, lease, "fine")

    async def grant(tx: Transaction) -> None:
        key = await space_key(tx, SPACE)
        await add_grants(
            tx,
            key,
            agents=["bot"],
            rules=[f"bash({command})", "bash(ls)"],
            run=run.id,
            interrupt=InterruptId("int_1"),
            by=None,
        )

    await store.grants._database.write(grant)
    assert {"artifacts", "blobs", "grants"} <= (await traces(where, "ZEBRA-7731")).keys()
    await store.forgetting.forget(SPACE, ForgetRequest(run_id=run.id))
    assert await traces(where, "ZEBRA-7731") == {}
    assert await orphans_of(where) == {}
    assert await store.grants.in_force(SPACE) == {"bot": ["bash(ls)"]}
    for artifact in (await store.artifacts.page(SPACE, run=run.id)).items:
        whole = await store.artifacts.get(SPACE, artifact.id)
        content = await store.files.content(SPACE, whole.file_id) if whole.file_id else (whole.content or "").encode()
        assert content == b"kept\n[forgotten]\n"
        assert (whole.digest, whole.size) == (sha256(content).hexdigest(), len(content))


async def test_the_options_of_a_question_are_forgotten(store: Store, where: str | Path) -> None:
    option = "the safe opens with ZEBRA-7731"
    run = await new_run(store, SPACE, await new_thread(store, SPACE, "t"), "Ask me.")
    lease = await claim(store)
    question = NewInterrupt(
        kind=InterruptKind.INPUT,
        message="Which one?",
        tool_call_id=ToolCallId("call_1"),
        response_schema={"type": "string", "enum": [option]},
    )
    asks = assistant("", call("call_1", "ask_user", options=[option]), id="asks")
    move = Move(to=RunStatus.WAITING, reason=WaitsFor.PERSON)
    await store.journal.commit(Commit(lease=lease, messages=[asks], interrupts=[question], move=move))
    await store.runs.end(SPACE, run.id)
    assert "interrupts" in await traces(where, "ZEBRA-7731")
    await store.forgetting.forget(SPACE, ForgetRequest(run_id=run.id))
    assert await traces(where, "ZEBRA-7731") == {}


async def test_forgetting_a_memory_takes_its_run_and_its_versions(store: Store, where: str | Path) -> None:
    await secret_run(store)
    kept = (await store.memories.page(SPACE)).items[0]
    await store.memories.update(SPACE, kept.id, MemoryPatch(text="It is elsewhere"))
    receipt = await store.forgetting.forget(SPACE, ForgetRequest(ids=[kept.id]))
    assert (receipt.memories, receipt.versions, receipt.messages, receipt.memory_ids) == (1, 1, 4, [kept.id])
    assert await traces(where, "ZEBRA-7731") == {}
    with pytest.raises(NotFound):
        await store.memories.get(SPACE, kept.id)


async def test_forgetting_only_a_memory_keeps_the_conversation(store: Store, where: str | Path) -> None:
    kept = (await store.memories.put(SPACE, NewMemory(type=MemoryType.SEMANTIC, text=SECRET))).memory
    receipt = await store.forgetting.forget(SPACE, ForgetRequest(ids=[kept.id], sources=False))
    assert (receipt.memories, receipt.messages) == (1, 0)
    assert await traces(where, "ZEBRA-7731") == {}


async def test_forgetting_a_message_takes_the_memories_that_came_from_it(store: Store, where: str | Path) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE, "t"), SECRET, "and something else entirely")
    await finish(store, await claim(store), "fine")
    said = (await store.messages.of_run(SPACE, run.id))[0]
    source = MemorySource(thread_id=said.thread_id, message_id=said.id)
    await store.memories.put(SPACE, NewMemory(type=MemoryType.SEMANTIC, text="ZEBRA-7731", sources=[source]))
    receipt = await store.forgetting.forget(SPACE, ForgetRequest(message_ids=[said.id]))
    assert (receipt.memories, receipt.messages) == (1, 1)
    assert await traces(where, "ZEBRA-7731") == {}
    assert [message.content for message in await store.messages.of_run(SPACE, run.id)] == [
        "[forgotten]",
        "and something else entirely",
        "fine",
    ]


async def test_a_reminder_about_a_forgotten_text_keeps_no_term_of_it(store: Store, where: str | Path) -> None:
    run = await secret_run(store)
    await store.reminders.create(SPACE, NewReminder(content=SECRET, trigger_type=TriggerType.CONTEXT))
    assert "zebra" in {row["term"] for row in (await rows_of(where))["reminder_terms"]}
    await store.forgetting.forget(SPACE, ForgetRequest(run_id=run.id))
    assert (await rows_of(where))["reminder_terms"] == []
    assert await traces(where, "ZEBRA-7731") == {}


async def test_an_active_run_is_not_forgotten(store: Store, where: str | Path) -> None:
    run = await new_run(store, SPACE, await new_thread(store, SPACE), SECRET)
    await claim(store)
    before = await rows_of(where)
    with pytest.raises(RunActive):
        await store.forgetting.forget(SPACE, ForgetRequest(run_id=run.id))
    after = await rows_of(where)
    assert {name: rows for name, rows in after.items() if name != "memory_spaces"} == {
        name: rows for name, rows in before.items() if name != "memory_spaces"
    }


async def test_forgetting_by_entity_author_and_time(store: Store, clock: HeldClock) -> None:
    about = [MemoryEntity(label="Ann")]
    first = (await store.memories.put(SPACE, NewMemory(type=MemoryType.SEMANTIC, text="one", entities=about))).memory
    second = (await store.memories.put(SPACE, NewMemory(type=MemoryType.SEMANTIC, text="two", author="bob"))).memory
    assert (await store.forgetting.forget(SPACE, ForgetRequest(entity="ANN"))).memory_ids == [first.id]
    assert (await store.forgetting.forget(SPACE, ForgetRequest(author="bob"))).memory_ids == [second.id]
    with pytest.raises(NotFound):
        await store.forgetting.forget(SPACE, ForgetRequest(entity="Ann"))


@pytest.mark.parametrize(
    "request_",
    [
        ForgetRequest(),
        ForgetRequest(ids=[]),
        ForgetRequest(ids=[MemoryId("m")] * 1001),
        ForgetRequest(dry_run=True),
    ],
)
async def test_a_request_that_selects_nothing_is_refused(store: Store, request_: ForgetRequest) -> None:
    with pytest.raises(Invalid):
        await store.forgetting.forget(SPACE, request_)


async def test_forgetting_stays_in_its_space(store: Store, where: str | Path) -> None:
    run = await secret_run(store)
    await store.memories.put(OTHER, NewMemory(type=MemoryType.SEMANTIC, text=SECRET))
    for foreign in (ForgetRequest(run_id=run.id), ForgetRequest(thread_id=run.thread_id)):
        with pytest.raises(NotFound):
            await store.forgetting.forget(OTHER, foreign)
    await store.forgetting.forget(SPACE, ForgetRequest(thread_id=run.thread_id))
    assert (await traces(where, "ZEBRA-7731")).keys() == {"memories"}


async def test_racing_requests_forget_once(store: Store, where: str | Path) -> None:
    run = await secret_run(store)
    receipts = await asyncio.gather(
        *(store.forgetting.forget(SPACE, ForgetRequest(run_id=RunId(run.id))) for _ in range(4))
    )
    assert sorted(receipt.memories for receipt in receipts) == [0, 0, 0, 1]
    assert await traces(where, "ZEBRA-7731") == {}


async def test_a_file_that_was_not_scrubbed_is_scrubbed_when_it_is_opened(
    backend: str, where: str | Path, clock: HeldClock
) -> None:
    if backend != "sqlite":
        pytest.skip("a server's files are its own")
    async with opened(where, clock) as store:
        await store.spaces.create(SPACE, name="Acme")
        run = await secret_run(store)
        database = store.forgetting._database

        async def only_write(operation: Any) -> Any:
            return await database.write(operation)

        database.write_and_scrub = only_write  # type: ignore[method-assign]
        await store.forgetting.forget(SPACE, ForgetRequest(run_id=run.id))
        assert b"ZEBRA-7731" in bytes_of(where)
    async with opened(where, clock):
        assert b"ZEBRA-7731" not in bytes_of(where)


def test_copies_are_found_by_sentence_and_in_json() -> None:
    eraser = TextEraser(['He lives at 5 Elm Road. Call\nhim "now" please.'])
    assert eraser.erase("note: He lives at 5 Elm Road!") == "note: [forgotten]!"
    assert eraser.erase(r'{"a": "him \"now\" please"}') == '{"a": "[forgotten]"}'
    assert eraser.erase("run_0123456789abcdef") == "run_0123456789abcdef"
    assert "run_0123456789abcdef" not in copies_to_find(["run_0123456789abcdef"])
    assert (
        msgspec.json.decode(TextEraser(["never tell him that"]).erase(r'"and\never tell him that"')) == "and[forgotten]"
    )
    assert copies_to_find(["金庫の番号は七七三一"]) == ["金庫の番号は七七三一"]
