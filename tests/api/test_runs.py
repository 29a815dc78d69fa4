"""Runs over HTTP."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from holdfast.domain.content import Json
from tests.api.conftest import write_agents
from tests.api.site import Site, eventually, serve
from tests.scenario.agents.agent_workspace import AgentWorkspace


async def wait_for_end(site: Site, run: Json) -> Json:
    with site.floor.holdfast.watcher.watch(run["space_id"], run["id"]) as watch:
        seq = 0
        async with asyncio.timeout(30):
            while (head := await watch.wait_past(seq)) is not None and not head.status.terminal:
                seq = head.last_event_seq
    return await site.get(f"/api/runs/{run['id']}")


async def start_waiting_run(site: Site) -> Json:
    thread = await site.thread(agent_type="asker")
    run = await site.play(thread)
    assert (run["status"], run["status_reason"]) == ("waiting", "person")
    return run


async def start_stalled_run(site: Site) -> Json:
    thread = await site.thread(agent_type="staller")
    return await site.post(f"/api/threads/{thread}/runs", {"input": "go"})


async def test_a_run_is_read_at_every_path(backend_site: Site) -> None:
    thread = await backend_site.thread()
    run = await backend_site.play(thread, "hi")
    assert (run["status"], run["output"], run["input"]) == ("completed", "hello you", "hi")
    for path in (
        f"/api/runs/{run['id']}",
        f"/api/threads/{thread}/runs/{run['id']}",
        f"/api/spaces/default/runs/{run['id']}",
        f"/api/spaces/default/threads/{thread}/runs/{run['id']}",
    ):
        assert await backend_site.get(path) == run
    messages = await backend_site.get(f"/api/threads/{thread}/runs/{run['id']}/messages")
    assert [(message["role"], message["content"]) for message in messages["items"]] == [
        ("user", "hi"),
        ("assistant", "hello you"),
    ]


async def test_an_input_that_is_not_text_becomes_a_json_message(site: Site) -> None:
    run = await site.post(f"/api/threads/{await site.thread()}/runs?wait=30", {"input": {"a": [1]}})
    messages = await site.get(f"/api/threads/{run['thread_id']}/messages")
    assert (run["input"], messages["items"][0]["content"]) == ({"a": [1]}, '{"a":[1]}')


async def test_a_waiting_request_returns_the_current_run_when_the_server_stops(tmp_path: Path) -> None:
    async with serve(write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))) as site:
        thread = await site.thread(agent_type="staller")
        waiting = asyncio.ensure_future(
            site.request("POST", f"/api/threads/{thread}/runs?wait=60", json={"input": "go"})
        )
        await eventually(partial(_has_running_run, site))
        site.streams.close()
        response = await waiting
        assert (response.status_code, response.json()["status"]) == (201, "running")


async def _has_running_run(site: Site) -> bool:
    return bool((await site.get("/api/runs", status="running"))["items"])


async def test_messages_are_stored_unchanged(site: Site) -> None:
    thread = await site.thread()
    parts = [{"type": "text", "text": "look"}, {"type": "image", "source": {"type": "url", "value": "http://x/y"}}]
    body = {"messages": [{"role": "system", "content": "be kind"}, {"id": "m1", "content": parts}]}
    await site.post(f"/api/threads/{thread}/runs?wait=30", body)
    messages = (await site.get(f"/api/threads/{thread}/messages"))["items"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant"]
    assert (messages[1]["id"], messages[1]["content"]) == ("m1", parts)


async def test_without_wait_the_response_is_immediate(site: Site) -> None:
    run = await start_stalled_run(site)
    assert run["status"] in ("queued", "running")
    await site.post(f"/api/runs/{run['id']}/cancel", expect=200)


async def test_a_wait_that_times_out_returns_the_current_run(site: Site) -> None:
    thread = await site.thread(agent_type="staller")
    run = await site.post(f"/api/threads/{thread}/runs?wait=0.05", {"input": "go"})
    assert run["status"] in ("queued", "running")
    await site.post(f"/api/runs/{run['id']}/cancel", expect=200)


async def test_the_same_key_and_body_create_one_run(backend_site: Site) -> None:
    thread = await backend_site.thread()
    path, key = f"/api/threads/{thread}/runs", {"Idempotency-Key": "once"}
    responses = await asyncio.gather(
        *(backend_site.request("POST", path, json={"input": "go"}, headers=key) for _ in range(8))
    )
    assert {response.status_code for response in responses} == {201}
    assert len({response.json()["id"] for response in responses}) == 1
    assert sum(response.headers.get("idempotency-replayed") == "true" for response in responses) == 7
    other = await backend_site.post(path, {"input": "else"}, headers=key, expect=409)
    assert other["error"]["code"] == "IDEMPOTENCY_MISMATCH"


async def test_a_client_can_use_an_id_once(site: Site) -> None:
    thread = await site.thread()
    run = await site.play(thread, id="chosen-1")
    assert run["id"] == "chosen-1"
    refused = await site.post(f"/api/threads/{thread}/runs", {"input": "x", "id": "chosen-1"}, expect=409)
    assert refused["error"]["code"] == "ID_TAKEN"


async def test_a_run_continues_from_its_base_or_from_none(site: Site) -> None:
    thread = await site.thread()
    first = await site.play(thread, "one")
    second = await site.play(thread, "two")
    fork = await site.play(thread, "three", base_run_id=first["id"], base_sequence=0)
    root = await site.play(thread, "four", base_run_id=None)
    assert [run["base_run_id"] for run in (second, fork, root)] == [first["id"], first["id"], None]
    messages = await site.get(f"/api/threads/{thread}/messages", run_id=fork["id"])
    assert [message["content"] for message in messages["items"]] == ["one", "three", "hello you"]
    tree = await site.get(f"/api/threads/{thread}/tree")
    assert {node["id"]: node["base_run_id"] for node in tree["items"]} == {
        first["id"]: None,
        second["id"]: first["id"],
        fork["id"]: first["id"],
        root["id"]: None,
    }


async def test_a_busy_branch_refuses_a_run_with_on_busy_reject(site: Site) -> None:
    live = await start_stalled_run(site)
    path = f"/api/threads/{live['thread_id']}/runs"
    refused = await site.post(path, {"input": "x", "on_busy": "reject"}, expect=409)
    assert refused["error"] == {
        "code": "BUSY",
        "message": f"run `{live['id']}` has not ended: wait for it, cancel it, or choose another `on_busy`",
        "details": {"run_id": live["id"]},
    }
    queued = await site.post(path, {"input": "x"})
    assert (queued["status"], queued["base_run_id"]) == ("pending", live["id"])
    await site.post(f"/api/runs/{queued['id']}/cancel", expect=200)
    await site.post(f"/api/runs/{live['id']}/cancel", expect=200)


async def test_a_cancelled_run_records_its_reason_and_is_cancelled_once(site: Site) -> None:
    run = await start_stalled_run(site)
    cancelled = await site.post(f"/api/runs/{run['id']}/cancel", {"reason": "changed my mind"}, expect=200)
    assert (cancelled["status"], cancelled["status_reason"]) == ("cancelled", "changed my mind")
    refused = await site.post(f"/api/runs/{run['id']}/cancel", expect=409)
    assert refused["error"]["code"] == "ILLEGAL_MOVE"


async def test_an_interrupt_is_listed_and_answered_once(backend_site: Site) -> None:
    run = await start_waiting_run(backend_site)
    listed = await backend_site.get("/api/interrupts", limit=200)
    (interrupt,) = [each for each in listed["items"] if each["run_id"] == run["id"]]
    assert (interrupt["kind"], interrupt["message"]) == ("input", "which?")
    body = {"response": "the blue one", "interrupt_id": interrupt["id"]}
    responses = await asyncio.gather(
        *(backend_site.request("POST", f"/api/runs/{run['id']}/respond", json=body) for _ in range(5))
    )
    assert sorted(response.status_code for response in responses) == [200, 409, 409, 409, 409]
    assert (await wait_for_end(backend_site, run))["output"] == "so be it"
    late = await backend_site.post(f"/api/runs/{run['id']}/respond", {"response": "x"}, expect=409)
    assert late["error"]["code"] == "ALREADY_ANSWERED"
    answered = await backend_site.get("/api/interrupts", status="answered", limit=200)
    assert interrupt["id"] in [each["id"] for each in answered["items"]]


async def test_an_interrupt_of_another_run_is_not_found(site: Site) -> None:
    one, other = await start_waiting_run(site), await start_waiting_run(site)
    listed = await site.get("/api/interrupts", limit=200)
    (interrupt,) = [each["id"] for each in listed["items"] if each["run_id"] == one["id"]]
    body = {"response": "x", "interrupt_id": interrupt}
    refused = await site.post(f"/api/runs/{other['id']}/respond", body, expect=404)
    assert refused["error"]["code"] == "NOT_FOUND"
    for run in (one, other):
        await site.post(f"/api/runs/{run['id']}/cancel", expect=200)


async def test_a_run_with_an_open_interrupt_refuses_other_messages(site: Site) -> None:
    run = await start_waiting_run(site)
    steered = await site.post(f"/api/runs/{run['id']}/messages", {"content": "hurry"}, expect=409)
    queued = await site.post(f"/api/threads/{run['thread_id']}/runs", {"input": "next"}, expect=409)
    assert {steered["error"]["code"], queued["error"]["code"]} == {"WAITING"}
    assert len(queued["error"]["details"]["interrupts"]) == 1
    await site.post(f"/api/runs/{run['id']}/cancel", expect=200)


async def test_a_running_run_is_steered(site: Site) -> None:
    run = await start_stalled_run(site)
    receipt = await site.post(f"/api/runs/{run['id']}/messages", {"content": "the other way"}, expect=202)
    assert receipt == {"run_id": run["id"], "number": 1}
    await site.post(f"/api/runs/{run['id']}/cancel", expect=200)
    over = await site.post(f"/api/runs/{run['id']}/messages", {"content": "too late"}, expect=409)
    assert over["error"]["code"] == "CONFLICT"


@pytest.mark.parametrize(("retry_from", "has_base"), [("last_step", True), ("start", False)])
async def test_a_failed_run_is_retried(site: Site, retry_from: str, has_base: bool) -> None:
    failed = await site.play(await site.thread(agent_type="failing"))
    assert (failed["status"], failed["error"]["code"]) == ("failed", "MODEL_REFUSED")
    retried = await site.post(f"/api/runs/{failed['id']}/retry?wait=30", {"from": retry_from})
    assert (retried["base_run_id"] == failed["id"], retried["status"]) == (has_base, "failed")


async def test_a_completed_run_is_not_retried(site: Site) -> None:
    run = await site.play(await site.thread())
    refused = await site.post(f"/api/runs/{run['id']}/retry", expect=409)
    assert refused["error"]["code"] == "CONFLICT"


async def test_runs_are_listed_by_filter(site: Site) -> None:
    thread = await site.thread()
    tagged = await site.play(thread, tags=["red"])
    await site.play(thread)
    assert [run["id"] for run in (await site.get("/api/runs", tag="red"))["items"]] == [tagged["id"]]
    assert (await site.get("/api/spaces/default/runs", tag="red", status="failed"))["items"] == []
    assert (await site.get("/api/runs", tag="red", agent_type="bot", mode="chat"))["items"] == [tagged]
    assert (await site.get("/api/runs", root_run_id=tagged["id"]))["items"] == [tagged]


async def test_pages_list_every_item_once(backend_site: Site) -> None:
    thread = await backend_site.thread()
    created = [(await backend_site.play(thread))["id"] for _ in range(5)]
    pages = [[run["id"] for run in items] async for items in backend_site.pages(f"/api/threads/{thread}/runs", limit=2)]
    assert pages == [created[:2:-1], created[2:0:-1], created[:1]]


async def test_the_log_of_a_run_is_read_in_order_and_byte_for_byte(site: Site) -> None:
    run = await site.play(await site.thread())
    path = f"/api/runs/{run['id']}/events"
    all_events = (await site.get(path))["items"]
    assert [event["seq"] for event in all_events] == list(range(1, run["last_event_seq"] + 1))
    assert all_events[0]["data"]["runId"] == run["id"]
    first = await site.get(path, limit=3)
    rest = await site.get(path, cursor=first["next_cursor"])
    assert first["items"] + rest["items"] == all_events
    last = run["last_event_seq"]
    assert (await site.get(path, cursor=last))["items"] == []
    assert (await site.get(path, cursor=last + 1, expect=400))["error"]["details"] == {"field": "cursor", "last": last}
    some = await site.get(path, type=["RUN_STARTED", "RUN_FINISHED"])
    assert [event["type"] for event in some["items"]] == ["RUN_STARTED", "RUN_FINISHED"]
    raw = (await site.request("GET", path)).content
    for event in await site.floor.store.events.after(run["space_id"], run["id"]):
        assert event.data in raw


async def test_steps_and_contexts_are_read(site: Site) -> None:
    run = await site.play(await site.thread(agent_type="planner"))
    steps = (await site.get(f"/api/runs/{run['id']}/steps"))["items"]
    assert [(step["kind"], step["state"]) for step in steps] == [("model", "done"), ("tool", "done"), ("model", "done")]
    page = await site.get(f"/api/runs/{run['id']}/steps", limit=2)
    rest = await site.get(f"/api/runs/{run['id']}/steps", limit=2, cursor=page["next_cursor"])
    assert page["items"] + rest["items"] == steps
    newest = await site.get(f"/api/runs/{run['id']}/context")
    assert (newest["steps"], newest["context"]["step"]) == ([1, 3], 3)
    first = await site.get(f"/api/runs/{run['id']}/context", step=1)
    assert [message["content"] for message in first["context"]["messages"]] == ["go"]
    await site.get(f"/api/runs/{run['id']}/context", step=2, expect=404)


async def test_the_children_of_a_run_are_listed_under_its_root(site: Site) -> None:
    run = await site.play(await site.thread(agent_type="parent"))
    (child,) = (await site.get(f"/api/runs/{run['id']}/children"))["items"]
    assert (child["parent_run_id"], child["agent_type"]) == (run["id"], "bot")
    tree = await site.get("/api/runs", root_run_id=run["id"])
    assert {each["id"] for each in tree["items"]} == {run["id"], child["id"]}


async def test_a_task_id_is_accepted_as_a_run_id(backend_site: Site) -> None:
    thread = await backend_site.thread()
    run = await backend_site.play(thread)
    task = run["id"].replace("run_", "task_")
    for path in (f"/api/runs/{task}", f"/api/threads/{thread}/runs/{task}", f"/api/spaces/default/runs/{task}"):
        assert await backend_site.get(path) == run
    for path in ("events", "steps", "context", "children", "artifacts"):
        assert await backend_site.get(f"/api/runs/{task}/{path}") == await backend_site.get(
            f"/api/runs/{run['id']}/{path}"
        )
    for path in ("messages", "tasks", "plan"):
        assert (await backend_site.get(f"/api/threads/{thread}/{path}", run_id=task)) == (
            await backend_site.get(f"/api/threads/{thread}/{path}", run_id=run["id"])
        )
    assert (await backend_site.get("/api/runs", root_run_id=task))["items"] == [run]
    assert (await backend_site.play(thread, base_run_id=task))["base_run_id"] == run["id"]
    refused = await backend_site.post(f"/api/threads/{thread}/runs", {"input": "x", "id": "task_mine"}, expect=400)
    assert refused["error"]["details"] == {"field": "id"}


async def test_a_task_is_read_by_task_id_and_run_id_in_both_apis(site: Site) -> None:
    created = await site.post("/agents/bot/task", {"input": "go"}, expect=202)
    task = created["taskId"]
    run = await wait_for_end(site, {"space_id": "default", "id": task.replace("task_", "run_")})
    assert (run["mode"], run["status"]) == ("task", "completed")
    assert await site.get(f"/tasks/{task}") == await site.get(f"/tasks/{run['id']}")
    assert (await site.get(f"/tasks/{run['id']}"))["task"]["id"] == task
    assert (await site.get(f"/api/runs/{task}"))["id"] == run["id"]


async def test_a_run_of_an_unknown_agent_is_refused(site: Site) -> None:
    thread = await site.thread()
    unknown = await site.post(f"/api/threads/{thread}/runs", {"input": "x", "agent_type": "nobody"}, expect=404)
    assert unknown["error"]["code"] == "NOT_FOUND"


async def test_the_end_of_a_run_is_notified(site: Site) -> None:
    run = await site.play(await site.thread())

    async def is_notified() -> bool:
        return run["id"] in {each["run_id"] for each in (await site.get("/api/notifications"))["items"]}

    await eventually(is_notified)  # the outbox is dispatched by another task
    (notification,) = [each for each in (await site.get("/api/notifications"))["items"] if each["run_id"] == run["id"]]
    assert (notification["kind"], notification["read_at"]) == ("run.completed", None)
    before = (await site.get("/api/notifications/unread"))["unread"]
    left = await site.post("/api/notifications/read", {"number": notification["number"]}, expect=200)
    assert left["unread"] == before - 1
    marked = await site.post("/api/notifications/read", {"through": notification["number"]}, expect=200)
    assert marked["unread"] < before
    await site.post("/api/notifications/read", {"number": 10**9}, expect=404)
    await site.post("/api/notifications/read", {"number": 1, "through": 2}, expect=400)
    page = await site.get("/api/notifications", limit=1)
    if page["next_cursor"] is not None:
        following = await site.get("/api/notifications", limit=1, cursor=page["next_cursor"])
        assert following["items"][0]["number"] < page["items"][0]["number"]
    await site.post("/api/notifications/read", expect=200)


@pytest.mark.parametrize("path", ["/api/runs", "/api/threads/{thread}/runs"])
async def test_a_cursor_that_no_page_returned_is_refused_as_invalid(site: Site, path: str) -> None:
    found = await site.get(path.format(thread=await site.thread()), cursor="zzz", expect=400)
    assert (found["error"]["code"], found["error"]["details"]) == ("INVALID", {"field": "cursor"})
    missing = await site.get("/api/threads/zzz/runs", cursor="zzz", expect=404)
    assert "thread" in missing["error"]["message"]


async def test_a_second_cancel_says_that_the_run_is_cancelled_already(site: Site) -> None:
    thread = await site.thread(agent_type="staller")
    run = (await site.post(f"/api/threads/{thread}/runs", {"input": "go"}))["id"]
    await site.post(f"/api/runs/{run}/cancel", expect=200)
    again = await site.post(f"/api/runs/{run}/cancel", expect=409)
    assert (again["error"]["code"], again["error"]["message"]) == ("ILLEGAL_MOVE", f"run `{run}` is cancelled already")


async def test_a_run_on_a_new_thread_is_created_with_it(site: Site) -> None:
    body = {"input": "hello", "agent_type": "bot", "thread": {"title": "fresh", "metadata": {"a": 1}}}
    run = await site.post("/api/runs?wait=30", body)
    thread = await site.get(f"/api/threads/{run['thread_id']}")
    assert (run["status"], thread["title"], thread["agent_type"]) == ("completed", "fresh", "bot")


async def test_a_refused_run_on_a_new_thread_leaves_no_thread(site: Site) -> None:
    before = (await site.get("/api/threads", limit=200))["items"]
    for body, status in (
        ({"input": "x", "agent_type": "nobody"}, 404),
        ({"agent_type": "bot"}, 400),
        ({"input": "x", "agent_type": "bot", "base_run_id": "run_x"}, 400),
    ):
        await site.post("/api/runs", body, expect=status)
    assert (await site.get("/api/threads", limit=200))["items"] == before


async def test_reading_a_run_can_wait_for_its_end(site: Site) -> None:
    run = await site.post("/api/runs", {"input": "hello", "agent_type": "bot"})
    assert (await site.get(f"/api/runs/{run['id']}", wait=30))["status"] == "completed"
    await site.get("/api/runs/run_none", wait=30, expect=404)


async def test_the_steps_of_a_tree_name_child_worker_and_first_token(shared_backend_site: Site) -> None:
    run = await shared_backend_site.play(await shared_backend_site.thread(agent_type="parent"))
    steps = (await shared_backend_site.get(f"/api/runs/{run['id']}/steps", tree=True))["items"]
    (spawn,) = [step for step in steps if step["child_run_id"] is not None]
    owner = run["session_id"].rpartition(".")[0]
    assert {step["run_id"] for step in steps} == {run["id"], spawn["child_run_id"]}
    assert {step["worker"] for step in steps} == {owner}
    assert all([each["worker"] for each in step["attempts"]] == [owner] for step in steps)
    calls = [step for step in steps if step["kind"] == "model"]
    assert all(step["started_at"] <= step["first_token_at"] <= step["settled_at"] for step in calls)
    first = await shared_backend_site.get(f"/api/runs/{run['id']}/steps", tree=True, limit=3)
    rest = await shared_backend_site.get(
        f"/api/runs/{run['id']}/steps", tree=True, limit=3, cursor=first["next_cursor"]
    )
    assert first["items"] + rest["items"] == steps
    await shared_backend_site.get(f"/api/runs/{run['id']}/steps", tree=True, cursor="1", expect=400)
    whole = await shared_backend_site.get(f"/api/runs/{run['id']}", tree_usage=True)
    (child,) = (await shared_backend_site.get(f"/api/runs/{run['id']}/children"))["items"]
    both = run["usage"]["input_tokens"] + child["usage"]["input_tokens"]
    assert (whole["tree_usage"]["input_tokens"], "tree_usage" in child) == (both, False)


async def test_runs_are_listed_by_several_statuses_and_tags_a_model_and_a_time(shared_backend_site: Site) -> None:
    runs = []
    for tags in (["red", "big"], ["red"]):
        run = await shared_backend_site.post("/api/runs?wait=30", {"agent_type": "bot", "input": "x", "tags": tags})
        runs.append(run)
    path, model = "/api/runs", runs[0]["model_used"]

    async def found(query: str) -> list[str]:
        return [
            each["id"]
            for each in (await shared_backend_site.get(f"{path}?root_run_id={runs[0]['id']}&{query}"))["items"]
        ]

    known = [runs[0]["id"]]
    assert await found("status=failed&status=completed") == known
    assert await found("status=failed&status=waiting") == []
    assert await found("tag=red&tag=big") == known
    assert await found("tag=red&tag=small") == []
    assert (await found(f"model={model}"), await found("model=other")) == (known, [])
    assert await found(f"from={runs[0]['created_at']}&to={runs[1]['completed_at']}") == known
    assert await found(f"to={runs[0]['created_at']}") == []
    usage = (await shared_backend_site.get(f"{path}?tree_usage=true&limit=1"))["items"][0]["tree_usage"]
    assert usage["input_tokens"] >= 0
    for bad in (
        "status=done",
        "from=yesterday",
        "to=2026-01-31",
        "status=failed&status=nonsense",
        "tree_usage=maybe",
        "from=2026-01-31T00:00:00Z&from=2026-01-31T00:00:00Z",
        "&".join(f"tag={number}" for number in range(60)),
    ):
        assert (await shared_backend_site.get(f"{path}?{bad}", expect=400))["error"]["code"] == "INVALID", bad


async def test_a_context_says_what_differs_from_an_earlier_call(shared_backend_site: Site) -> None:
    site = shared_backend_site
    run = await site.play(await site.thread(agent_type="worker"))
    path = f"/api/runs/{run['id']}/context"
    newest = await site.get(path, since="previous")
    assert newest["changes"]["since"] == newest["steps"][-2]
    sent = {each["digest"]: each["role"] for each in newest["context"]["messages"]}
    assert [sent[each] for each in newest["changes"]["messages"]["added"]][:2] == ["assistant", "tool"]
    assert "plan" in {each["name"] for each in newest["changes"]["segments"]}
    first, last = newest["steps"][0], newest["steps"][-1]
    assert (await site.get(path, step=first, since="previous"))["changes"] is None
    assert (await site.get(path, step=last))["changes"] is None
    whole = (await site.get(path, since=first))["changes"]
    assert {"name": "plan", "change": "added", "before": None} in [
        {name: each[name] for name in ("name", "change", "before")} for each in whole["segments"]
    ]
    for since, status in ((last, 400), ("soon", 400), (-1, 400), (2, 404), (10**20, 400)):
        await site.get(path, since=since, expect=status)
    await site.get(path, step=first, since=last, expect=400)


async def test_interrupts_are_read_by_id_counted_and_filtered(shared_backend_site: Site) -> None:
    site = shared_backend_site
    before = (await site.get("/api/interrupts/count"))["open"]
    runs = [await start_waiting_run(site) for _ in range(2)]
    assert (await site.get("/api/interrupts/count"))["open"] == before + 2

    async def found(**query: Json) -> list[str]:
        return [each["run_id"] for each in (await site.get("/api/interrupts", limit=200, **query))["items"]]

    (interrupt,) = (await site.get("/api/interrupts", run_id=runs[0]["id"]))["items"]
    assert (interrupt["agent_type"], interrupt["title"]) == ("asker", "go")
    assert await site.get(f"/api/interrupts/{interrupt['id']}") == interrupt
    assert await found(thread_id=runs[1]["thread_id"], kind="input", agent_type="asker") == [runs[1]["id"]]
    assert await found(thread_id=runs[1]["thread_id"], kind="approval") == []
    assert await found(agent_type="nobody") == []
    assert (await found())[:2] == [runs[1]["id"], runs[0]["id"]]
    assert (await found(oldest=True))[-2:] == [runs[0]["id"], runs[1]["id"]]
    first = await site.get("/api/interrupts", oldest=True, limit=1)
    second = await site.get("/api/interrupts", oldest=True, limit=1, cursor=first["next_cursor"])
    assert first["items"][0]["created_at"] <= second["items"][0]["created_at"]
    for run in runs:
        await site.post(f"/api/runs/{run['id']}/cancel", expect=200)
    assert await found(run_id=runs[0]["id"]) == []
    assert await found(run_id=runs[0]["id"], status="cancelled") == [runs[0]["id"]]
    for bad in ({"kind": "x"}, {"oldest": "maybe"}, {"oldest": True, "status": "answered"}, {"thread_id": "a b"}):
        assert (await site.get("/api/interrupts", expect=400, **bad))["error"]["code"] == "INVALID", bad
    await site.get("/api/interrupts/int_none", expect=404)
