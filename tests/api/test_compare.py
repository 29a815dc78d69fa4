"""Two branches of a thread over HTTP: messages before, after and around one, and the comparison."""

from holdfast.domain.content import Json
from tests.api.site import Site


async def _forked_thread(site: Site) -> tuple[str, Json, Json]:
    """Return a thread with two turns and a fork after the first."""
    thread = await site.thread()
    first = await site.play(thread, "one")
    second = await site.play(thread, "two")
    fork = await site.post(f"/api/threads/{thread}/runs?wait=30", {"input": "other", "base_run_id": first["id"]})
    return thread, second, fork


async def test_two_branches_are_compared_from_their_common_message_on(shared_backend_site: Site) -> None:
    site = shared_backend_site
    thread, second, fork = await _forked_thread(site)
    path = f"/api/threads/{thread}/compare"
    seen = await site.get(path, a=second["id"], b=fork["id"])
    assert (seen["common"]["sequence"], seen["common"]["message"]["content"]) == (1, "hello you")
    assert [each["content"] for each in seen["a"]["messages"]] == ["two", "hello you"]
    assert [each["content"] for each in seen["b"]["messages"]] == ["other", "hello you"]
    for side, run in ((seen["a"], second), (seen["b"], fork)):
        assert (side["run"], side["usage"], side["more"]) == (run, run["usage"], False)
        assert (side["runs"], side["model_calls"], side["tool_calls"]) == (1, 1, {})
    short = await site.get(path, a=second["id"], b=fork["id"], limit=1)
    assert ([len(short[side]["messages"]) for side in "ab"], short["a"]["more"]) == ([1, 1], True)
    foreign = await site.play(await site.thread())
    for query, status in [
        ({"a": second["id"]}, 400),
        ({"a": second["id"], "b": second["id"]}, 400),
        ({"a": second["id"], "b": "run_none"}, 404),
        ({"a": foreign["id"], "b": fork["id"]}, 404),
        ({"a": "a b", "b": fork["id"]}, 400),
    ]:
        await site.get(path, expect=status, **query)
    await site.get("/api/threads/thr_none/compare", expect=404, a=second["id"], b=fork["id"])


async def test_messages_are_read_before_after_and_around_one(shared_backend_site: Site) -> None:
    site = shared_backend_site
    thread, second, fork = await _forked_thread(site)
    path = f"/api/threads/{thread}/messages"

    async def found(**query: Json) -> tuple[list[int], str | None]:
        page = await site.get(path, run_id=second["id"], **query)
        return [each["sequence"] for each in page["items"]], page["next_cursor"]

    assert await found(after_sequence=0, limit=2) == ([1, 2], "2")
    assert await found(after_sequence=2, limit=2) == ([3], None)
    assert await found(after_sequence=3) == ([], None)
    assert await found(before_sequence=2, limit=1) == ([1], "1")
    assert await found(around=1, limit=3) == ([0, 1, 2], None)
    assert await found(around=2, limit=2) == ([1, 2], "1")
    assert await found(around=0, limit=1) == ([0], None)
    other = (await site.get(path, run_id=fork["id"]))["items"][-1]
    for query in (
        {"after_sequence": other["sequence"]},
        {"around": other["sequence"]},
        {"around": 99, "limit": 1},
        {"before_sequence": 99},
        {"after_sequence": -1},
        {"around": "x"},
        {"after_sequence": 1, "cursor": "1"},
        {"after_sequence": 1, "around": 1},
    ):
        assert (await site.get(path, expect=400, run_id=second["id"], **query))["error"]["code"] == "INVALID", query
    empty = await site.thread()
    await site.get(f"/api/threads/{empty}/messages", expect=400, after_sequence=0)


async def test_a_message_is_read_by_its_id(shared_backend_site: Site) -> None:
    site = shared_backend_site
    thread, second, fork = await _forked_thread(site)
    (message,) = [
        each for each in (await site.get(f"/api/threads/{thread}/messages"))["items"] if each["sequence"] == 0
    ]
    path = f"/api/threads/{thread}/messages/{message['id']}"
    assert await site.get(path) == await site.get(path, run_id=second["id"]) == message
    last = (await site.get(f"/api/threads/{thread}/messages"))["items"][-1]
    await site.get(f"/api/threads/{thread}/messages/{last['id']}", run_id=second["id"], expect=404)
    await site.get(f"/api/threads/{await site.thread()}/messages/{message['id']}", expect=404)
    await site.get(f"/api/threads/{thread}/messages/msg_none", expect=404)
    assert fork["id"] == last["run_id"]
