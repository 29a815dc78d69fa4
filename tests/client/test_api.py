"""The Python API, the same over every implementation: ask, start, follow, answer, branch, and read."""

import msgspec
import pytest

from holdfast import Conflict, HoldfastApi, Invalid, NotFound, RunFailed, Waiting
from holdfast.domain.content import Json
from holdfast.domain.run import RunStatus


async def test_ask_returns_the_answer(hf: HoldfastApi) -> None:
    assert await hf.ask("bot", "hello") == "you said hello"


class Quote(msgspec.Struct):
    symbol: str
    value: float


async def test_ask_returns_the_answer_as_a_type(hf: HoldfastApi) -> None:
    assert await hf.ask("broker", "What is ACME worth?", returns=Quote) == Quote(symbol="ACME", value=12.5)
    with pytest.raises(RunFailed, match="OUTPUT_INVALID"):
        await hf.ask("bot", "hello", returns=Quote)


async def test_ask_continues_a_thread(hf: HoldfastApi) -> None:
    first = await (await hf.start("bot", "one", title="talk")).wait()
    assert await hf.ask(None, "two", thread=first.thread_id) == "you said two"
    messages = await hf.threads.messages(first.thread_id)
    assert [message.content for message in messages] == ["one", "you said one", "two", "you said two"]
    assert [message.content for message in await hf.threads.messages(first.thread_id, limit=1)] == ["you said two"]
    assert (await hf.threads.get(first.thread_id)).title == "talk"


async def test_a_failed_run_raises_and_can_be_retried(hf: HoldfastApi) -> None:
    run = await hf.start("failing", "go")
    with pytest.raises(RunFailed, match="wrong key") as failed:
        await run.result()
    assert failed.value.details == {"run_id": run.id, "status": "failed"}
    retried = await (await run.retry()).wait()
    assert (retried.base_run_id, retried.status) == (run.id, "failed")


async def test_a_stream_has_the_whole_log_once(hf: HoldfastApi) -> None:
    run = await hf.start("bot", "hello")
    events = [event async for event in run.stream()]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert (events[0].type, events[-1].type) == ("RUN_STARTED", "RUN_FINISHED")
    assert events[0].decoded().__class__.__name__ == "RunStarted"
    assert [event.seq async for event in run.stream(after=3)] == [event.seq for event in events[3:]]
    logged = [event async for event in run.events(types=["RUN_STARTED", "RUN_FINISHED"])]
    assert [event.data for event in logged] == [events[0].fields, events[-1].fields]


async def test_a_question_is_answered_once(hf: HoldfastApi) -> None:
    run = await hf.start("asker", "go")
    with pytest.raises(Waiting) as waiting:
        await run.result()
    (question,) = await run.interrupts()
    assert waiting.value.details["interrupts"] == [question.id]
    assert (await run.respond("red", interrupt_id=question.id)).response == "red"
    with pytest.raises(Conflict):
        await run.respond("blue", interrupt_id=question.id)
    assert "red" in str(await run.result())


async def test_an_active_run_is_steered_and_cancelled(hf: HoldfastApi) -> None:
    run = await hf.start("slow", "go")
    await run.steer("faster")
    assert not (await run.wait(0)).status.terminal
    assert (await run.cancel("enough")).status is RunStatus.CANCELLED
    with pytest.raises(Conflict):
        await run.cancel()


async def test_a_fork_begins_after_a_message_of_its_run(hf: HoldfastApi) -> None:
    run = await hf.start("bot", "one")
    await run.result()
    fork = await run.fork("instead", after=0)
    assert await fork.result() == "you said instead"
    assert [message.content for message in await fork.messages()] == ["one", "instead", "you said instead"]
    thread = (await run.get()).thread_id
    assert {node.id: node.base_run_id async for node in hf.threads.tree(thread)} == {run.id: None, fork.id: run.id}
    again = await fork.fork("once more", after=0)
    await again.result()
    assert (await again.get()).base_run_id == run.id
    with pytest.raises(Invalid):
        await fork.fork("nowhere", after=77)


async def test_a_run_shows_its_steps_context_and_artifacts(hf: HoldfastApi) -> None:
    run = await hf.start("bot", "one")
    await run.result()
    assert [(step.kind, step.state) async for step in run.steps()] == [("model", "done")]
    context = (await run.context()).context
    assert context is not None and context.messages[-1].content == "one"
    first = await hf.artifacts.create(run.id, type="doc", title="notes", content="v1")
    await hf.artifacts.create(run.id, type="doc", title="notes", content="v2", id=first.id)
    assert [each.version async for each in run.artifacts()] == [2, 1]
    newest = await hf.artifacts.get(first.id)
    assert (newest.content, len(newest.versions)) == ("v2", 2)
    assert (await hf.artifacts.get(first.id, version=1)).content == "v1"
    assert [child async for child in run.children()] == []


async def test_lists_read_as_many_pages_as_needed(hf: HoldfastApi) -> None:
    for number in range(3):
        await hf.threads.create(title=f"paged {number}", agent="bot")
    titles = [thread.title async for thread in hf.threads.list(title="paged", limit=2)]
    assert len(titles) == 2
    assert len([run async for run in hf.runs.list(agent="bot", limit=250)]) >= 1
    assert [agent.name async for agent in hf.agents.list(limit=2)] == ["asker", "bot"]


async def test_threads_are_changed_archived_and_deleted(hf: HoldfastApi) -> None:
    thread = await hf.threads.create(title="old", agent="bot", metadata={"a": 1})
    assert (await hf.threads.update(thread.id, title="new")).title == "new"
    assert (await hf.threads.archive(thread.id)).status == "archived"
    with pytest.raises(Conflict):
        await hf.start(None, "x", thread=thread.id)
    await hf.threads.unarchive(thread.id)
    assert "# new" in await hf.threads.export(thread.id)
    assert await hf.threads.plan(thread.id) == []
    await hf.threads.delete(thread.id)
    assert (await hf.threads.get(thread.id)).status == "deleted"


async def test_files_are_stored_and_read_back(hf: HoldfastApi) -> None:
    file = await hf.files.upload("a b.txt", b"\x00data", media_type="text/x-odd")
    assert (file.name, file.media_type, await hf.files.content(file.id)) == ("a b.txt", "text/x-odd", b"\x00data")
    assert file.id in [each.id async for each in hf.files.list()]
    await hf.files.delete(file.id)
    with pytest.raises(NotFound):
        await hf.files.get(file.id)


async def test_notifications_are_listed_and_marked_as_read(hf: HoldfastApi) -> None:
    run = await hf.start("bot", "notify")
    await run.result()
    async for notification in hf.notifications.follow(after=0):
        if notification.run_id == run.id:
            break
    assert await hf.notifications.unread() > 0
    assert await hf.notifications.mark_read() == 0


async def test_a_space_has_its_own_threads(hf: HoldfastApi) -> None:
    name = f"acme-{id(hf)}"
    space = await hf.spaces.create(name, name="Acme")
    assert (await hf.spaces.update(name, name="Acme 2")).name == "Acme 2"
    assert space.id in [each.id async for each in hf.spaces.list()]
    await hf.spaces.delete(name)
    with pytest.raises(NotFound):
        await hf.spaces.get(name)


async def test_errors_have_the_class_of_their_code(hf: HoldfastApi) -> None:
    with pytest.raises(NotFound, match="run_none") as missing:
        await hf.run("run_none").get()
    assert missing.value.code == "NOT_FOUND"
    with pytest.raises(NotFound):
        await hf.ask("nobody", "x")
    with pytest.raises(Invalid):
        await hf.start("bot", "x", id="not valid!")
    with pytest.raises(NotFound):
        await hf.threads.get("../../keys")


async def test_a_repeated_start_with_one_key_is_one_run(hf: HoldfastApi) -> None:
    key = f"key-{id(hf)}"
    first = await hf.start("bot", "once", idempotency_key=key)
    assert (await hf.start("bot", "once", idempotency_key=key)).id == first.id


async def test_an_agent_of_the_space_is_created_changed_and_deleted(hf: HoldfastApi) -> None:
    settings: dict[str, Json] = {"model": "scripted:script.json"}
    scripts: dict[str, Json] = {"script.json": {"turns": [{"say": "filed"}]}}
    made = await hf.agents.create("clerk", settings=settings, instructions="File.", scripts=scripts)
    assert (made.name, made.space_id, made.skills) == ("clerk", "default", "auto")
    assert await (await hf.start("clerk", "go")).result() == "filed"
    changed = await hf.agents.update("clerk", soul="calm")
    assert (changed.soul, changed.version != made.version) == ("calm", True)
    replaced = await hf.agents.replace("clerk", settings=settings, instructions="File.", scripts=scripts)
    assert replaced.version == made.version
    assert len([each async for each in hf.agents.versions("clerk")]) == 2
    with pytest.raises(Conflict):
        await hf.agents.create("clerk", settings=settings, instructions="File.", scripts=scripts)
    with pytest.raises(Conflict):
        await hf.agents.delete("bot")
    await hf.agents.delete("clerk")
    with pytest.raises(NotFound):
        await hf.agents.get("clerk")
