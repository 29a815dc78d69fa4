"""Subscriptions to tasks and sessions over one socket, resumed after a cursor without loss or duplicates."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus

from holdfast.api.chat.client_socket import MAX_FRAME_BYTES
from holdfast.api.chat.live_sessions import SessionCursor, parse_session_cursor
from holdfast.api.chat.socket_frames import SocketClose
from holdfast.api.chat.subscriptions import MAX_SUBSCRIPTIONS
from holdfast.api.json_body import MAX_JSON_DEPTH
from holdfast.api.streams.sse import PING
from holdfast.control.errors import BadCursor
from holdfast.control.streams.live_streams import StreamLimits
from holdfast.domain.content import Json
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.task_ids import task_id_of
from holdfast.ports.runs import RunFilter
from tests.api.chat.socket_client import SocketClient, connect
from tests.api.conftest import write_agents
from tests.api.site import Site, eventually, serve
from tests.api.streams.manual_run import ManualRun, start_manual_run, with_timeout
from tests.builders import claim
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Yield a shared server without workers: tests work on its runs themselves."""
    folder = tmp_path_factory.mktemp("socket")
    async with serve(write_agents(AgentWorkspace(folder / "workspace", folder / "holdfast.db")), workers=0) as site:
        yield site


@pytest.fixture
def workshop(tmp_path: Path) -> AgentWorkspace:
    """Return a workspace on SQLite."""
    return write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))


async def next_run(site: Site, manual_run: ManualRun, **more: Any) -> ManualRun:
    """Create the next run of a session, and claim it."""
    new = NewRun(thread=manual_run.run.thread_id, **more)
    run = (await site.store.runs.create(SPACE, new)).run
    return ManualRun(site.store, run, await claim(site.store))


async def events(client: SocketClient, number: int) -> list[tuple[str, int]]:
    """Return task and number of the next events."""
    frame = [await client.expect("event") for _ in range(number)]
    return [(each["task_id"], each["seq"]) for each in frame]


def numbers(manual_run: ManualRun, first: int, last: int) -> list[tuple[str, int]]:
    """Return task and number of a range of events."""
    return [(task_id_of(manual_run.id), seq) for seq in range(first, last + 1)]


async def test_a_task_is_replayed_and_then_followed_to_its_end(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    await manual_run.say("a", "b")
    name = task_id_of(manual_run.id)
    async with connect(site.host) as client:
        await client.send("subscribe", id="1", task_id=name)
        assert await client.next() == {"type": "subscribed", "id": "1", "task_id": name, "after": 0}
        first = await client.expect("event")
        assert list(first) == ["type", "task_id", "seq", "data"]
        assert (first["seq"], first["data"]["type"]) == (1, "RUN_STARTED")
        assert await events(client, 3) == numbers(manual_run, 2, 4)
        await manual_run.say("c")
        assert await events(client, 1) == numbers(manual_run, 5, 5)
        await manual_run.finish()
        log = await site.log(manual_run.id)
        frame = [await client.expect("event") for _ in range(len(log) - 5)]
        assert [msgspec.json.encode(each["data"]) for each in frame] == [data for _, data in log[5:]]
        assert await client.next() == {"type": "ended", "task_id": name, "reason": "ended"}
        await client.check_open()


async def test_a_subscription_resumes_after_a_number_by_run_id_or_task_id(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    await manual_run.say(*"abc")
    async with connect(site.host) as client:
        await client.send("subscribe", task_id=manual_run.id, after=3)
        assert (await client.expect("subscribed"))["after"] == 3
        assert [(await client.expect("event"))["seq"] for _ in range(2)] == [4, 5]
        await client.send("subscribe", task_id=task_id_of(manual_run.id), after=5)
        await client.expect("subscribed")


async def test_no_event_is_sent_after_unsubscribing(site: Site) -> None:
    manual_run, other = await start_manual_run(site.store), await start_manual_run(site.store)
    async with connect(site.host) as client:
        for each in (manual_run, other):
            await client.send("subscribe", task_id=each.id, after=1)
            await client.expect("subscribed")
        await client.send("unsubscribe", id="u", task_id=manual_run.id)
        assert await client.next() == {"type": "unsubscribed", "id": "u", "task_id": manual_run.id}
        await manual_run.say("unheard")
        await other.say("heard")
        assert {(await client.expect("event"))["task_id"] for _ in range(other.event_count)} == {other.id}
        await client.send("subscribe", task_id=manual_run.id, after=1)
        await client.expect("subscribed")


async def test_a_session_is_followed_over_all_its_tasks(site: Site) -> None:
    first = await start_manual_run(site.store)
    await first.finish()
    second = await next_run(site, first)
    session = first.run.thread_id
    async with connect(site.host) as client:
        await client.send("subscribe", id="s", session_id=session)
        answer = await client.expect("subscribed")
        assert (answer["id"], answer["session_id"]) == ("s", session)
        frame = await client.expect("event")
        assert list(frame) == ["type", "session_id", "task_id", "cursor", "seq", "data"]
        assert (frame["session_id"], frame["task_id"], frame["seq"]) == (session, task_id_of(second.id), 1)
        await second.say("a")
        assert await events(client, 2) == numbers(second, 2, 3)
        await second.finish()
        while (frame := await client.next())["type"] == "event":
            assert frame["task_id"] == task_id_of(second.id)
        assert (frame["type"], frame["reason"], frame["task_id"]) == ("ended", "ended", task_id_of(second.id))
        third = await next_run(site, first)
        assert await events(client, 1) == numbers(third, 1, 1)


class Reader:
    """Follows a session over a sequence of sockets, each disconnected after a few events."""

    def __init__(self, site: Site, session: ThreadId) -> None:
        self._stage = site
        self._session = session
        self._cursor: Json = "0"
        self._random = Random(7)
        self.seen: list[tuple[str, int]] = []

    async def read(self, step: Callable[[], Awaitable[None]]) -> None:
        """Run `step` while a socket is open, and read until all events were received."""
        done = False
        while not done or len(self.seen) < await self._length():
            async with connect(self._stage.host) as client:
                await client.send("subscribe", session_id=self._session, after=self._cursor)
                self._cursor = (await client.expect("subscribed"))["cursor"]
                if not done:
                    await step()
                    done = True
                await self._take(client, self._random.randint(1, 4))

    async def _take(self, client: SocketClient, limit: int) -> None:
        while limit and len(self.seen) < await self._length():
            frame = await client.next()
            self._cursor = frame["cursor"]
            if frame["type"] == "event":
                self.seen.append((frame["task_id"], frame["seq"]))
                limit -= 1

    async def _length(self) -> int:
        runs = await self._stage.store.runs.page(SPACE, where=RunFilter(thread_id=self._session))
        return sum([len(await self._stage.log(run.id)) for run in runs.items])


async def test_a_reconnecting_session_loses_and_duplicates_nothing(site: Site) -> None:
    first = await start_manual_run(site.store)
    reader = Reader(site, first.run.thread_id)
    hands = [first]

    async def next_task() -> None:
        hands.append(await next_run(site, first, base=RunBase(run_id=first.id)))

    await reader.read(lambda: first.say(*"abcde"))
    await reader.read(first.finish)
    await reader.read(next_task)
    await reader.read(next_task)  # two active tasks in one session
    for manual_run in hands[1:]:
        await reader.read(lambda manual_run=manual_run: manual_run.say(*"fghij"))  # type: ignore[misc]
    await reader.read(hands[2].finish)
    await reader.read(lambda: hands[1].say("k"))
    await reader.read(next_task)
    await reader.read(hands[1].finish)
    expected = [(task_id_of(manual_run.id), seq) for manual_run in hands for seq, _ in await site.log(manual_run.id)]
    assert sorted(reader.seen) == sorted(expected)


async def test_a_session_without_a_cursor_starts_with_active_tasks(site: Site) -> None:
    ended = await start_manual_run(site.store)
    await ended.finish()
    async with connect(site.host) as client:
        await client.send("subscribe", session_id=ended.run.thread_id)
        cursor = (await client.expect("subscribed"))["cursor"]
        await client.check_open()
    assert cursor == f"{task_id_of(ended.id)}:{len(await site.log(ended.id))}"
    async with connect(site.host) as client:
        await client.send("subscribe", session_id=ended.run.thread_id, after=cursor)
        await client.expect("subscribed")
        assert (await client.expect("ended"))["task_id"] == task_id_of(ended.id)
        await client.check_open()


async def test_the_feed_sends_a_hint_for_each_change_of_a_run(site: Site) -> None:
    async with connect(site.host) as client:
        await client.send("subscribe", id="1", channel="feed")
        assert await client.expect("subscribed") == {"type": "subscribed", "id": "1", "channel": "feed"}
        manual_run = await start_manual_run(site.store)
        hint = await client.expect("event")
        assert (hint["channel"], hint["data"]["run_id"]) == ("feed", manual_run.id)
        await client.send("subscribe", channel="feed")
        assert (await client.expect_error())["code"] == "ALREADY_SUBSCRIBED"
        await client.send("unsubscribe", channel="feed")
        while (await client.next())["type"] == "event":
            pass


async def test_a_socket_of_a_space_follows_only_that_space(site: Site) -> None:
    await site.post("/api/spaces", {"id": "kitchen"})
    async with connect(site.host, "/api/spaces/kitchen/ws") as client:
        await client.send("subscribe", channel="feed")
        await client.expect("subscribed")
        await client.send("subscribe", session_id=await site.thread())
        assert (await client.expect_error())["code"] == "SESSION_NOT_FOUND"
        run = await site.post("/api/spaces/kitchen/runs", {"input": "x", "agent_type": "bot"})
        assert (await client.expect("event"))["data"]["run_id"] == run["id"]
        await client.send("subscribe", session_id=run["thread_id"], after="0")
        while (await client.next()).get("session_id") != run["thread_id"]:
            pass
        await site.post(f"/api/spaces/kitchen/runs/{run['id']}/cancel", {}, expect=200)


async def test_notifications_are_followed_after_a_number(site: Site) -> None:
    run = await site.post(f"/api/threads/{await site.thread()}/runs", {"input": "x"})
    await site.post(f"/api/runs/{run['id']}/cancel", {}, expect=200)
    (latest,) = (await site.get("/api/notifications", limit=1))["items"]
    async with connect(site.host) as client:
        await client.send("subscribe", channel="notifications", after=latest["number"] - 1)
        assert (await client.expect("subscribed"))["after"] == latest["number"] - 1
        frame = await client.expect("event")
        assert (frame["channel"], frame["seq"], frame["data"]["run_id"]) == (
            "notifications",
            latest["number"],
            latest["run_id"],
        )
    async with connect(site.host) as client:
        await client.send("subscribe", channel="notifications")
        after = (await client.expect("subscribed"))["after"]
    (newest,) = (await site.get("/api/notifications", limit=1))["items"]
    assert latest["number"] <= after <= newest["number"], "other runs of the site may have ended meanwhile"


@pytest.mark.parametrize(("channel", "after"), [("feed", 1), ("notifications", "x"), ("notifications", 10**9)])
async def test_an_invalid_position_of_a_channel_is_rejected(site: Site, channel: str, after: Json) -> None:
    async with connect(site.host) as client:
        await client.send("subscribe", channel=channel, after=after)
        assert (await client.expect_error())["code"] == "BAD_CURSOR"


async def test_a_deleted_task_is_not_found(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    await manual_run.finish()
    kept = await next_run(site, manual_run)
    cursor = f"{task_id_of(manual_run.id)}:1,{task_id_of(kept.id)}:1"
    await kept.finish()
    async with connect(site.host) as client:
        await site.store.runs.delete(SPACE, kept.id)
        await client.send("subscribe", session_id=manual_run.run.thread_id, after=cursor)
        assert (await client.expect_error())["code"] == "BAD_CURSOR"
        await client.send("subscribe", task_id=kept.id)
        assert (await client.expect_error())["code"] == "TASK_NOT_FOUND"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("nonsense", "BAD_JSON"),
        ('{"type": "ping"', "BAD_JSON"),
        ("", "BAD_JSON"),
        ("[]", "INVALID"),
        ("{}", "INVALID"),
        ('{"type": "sing"}', "INVALID"),
        ('{"type": "ping", "more": 1}', "INVALID"),
        ('{"type": "ping", "id": 7}', "INVALID"),
        ('{"type": "subscribe"}', "INVALID"),
        ('{"type": "subscribe", "task_id": "a", "session_id": "b"}', "INVALID"),
        ('{"type": "subscribe", "task_id": "a", "after": -1}', "INVALID"),
        ('{"type": "subscribe", "task_id": ""}', "INVALID"),
        (f'{{"type": "subscribe", "task_id": "{"a" * 129}"}}', "INVALID"),
        ('{"type": "subscribe", "task_id": "none"}', "TASK_NOT_FOUND"),
        ('{"type": "subscribe", "task_id": "no\\"ne"}', "TASK_NOT_FOUND"),
        ('{"type": "subscribe", "session_id": "none"}', "SESSION_NOT_FOUND"),
        ('{"type": "subscribe", "task_id": "a", "after": "task_a:1"}', "BAD_CURSOR"),
        ('{"type": "subscribe", "session_id": "a", "after": 7}', "BAD_CURSOR"),
        ('{"type": "unsubscribe", "task_id": "a"}', "NOT_SUBSCRIBED"),
        ('{"type": "offer", "methods": 7}', "INVALID"),
        ('{"type": "result", "call_id": "call_1", "content": 1}', "CALL_NOT_OPEN"),
        ('{"type": "result", "call_id": "call_1"}', "INVALID"),
    ],
)
async def test_an_invalid_frame_gets_an_error_and_the_socket_stays_open(site: Site, frame: str, code: str) -> None:
    async with connect(site.host) as client:
        await client.send_raw(frame)
        error = await client.expect_error()
        assert error["code"] == code and error["message"]
        await client.check_open()


async def test_a_response_repeats_the_id_of_its_frame(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    async with connect(site.host) as client:
        await client.send_raw("ping")
        assert await client.next() == {"type": "pong"}
        await client.send("subscribe", id="a", task_id="none")
        frame = await client.expect("error")
        assert (frame["id"], frame["task_id"]) == ("a", "none")
        await client.send("sing", id="b")
        assert (await client.expect("error"))["id"] == "b"
        for code in (None, "ALREADY_SUBSCRIBED"):
            await client.send("subscribe", id="c", task_id=manual_run.id, after=1)
            answer = await client.next()
            assert (answer["id"], answer.get("error", {}).get("code")) == ("c", code)


@pytest.mark.parametrize("after", ["x", "task_a", "task_a:", "task_a:1,", ":1", "task_a:-1", "a:1,a:2", "1", " "])
async def test_an_invalid_session_cursor_is_rejected(site: Site, after: str) -> None:
    manual_run = await start_manual_run(site.store)
    async with connect(site.host) as client:
        await client.send("subscribe", session_id=manual_run.run.thread_id, after=after)
        assert (await client.expect_error())["code"] == "BAD_CURSOR"
        await client.send("subscribe", session_id=manual_run.run.thread_id, after=f"{manual_run.id}:99")
        await client.expect("subscribed")
        assert (await client.expect_error())["code"] == "BAD_CURSOR"
        await client.check_open()


async def test_a_cursor_of_another_session_is_rejected(site: Site) -> None:
    manual_run, other = await start_manual_run(site.store), await start_manual_run(site.store)
    async with connect(site.host) as client:
        await client.send("subscribe", session_id=manual_run.run.thread_id, after=f"{other.id}:1")
        assert (await client.expect_error())["code"] == "BAD_CURSOR"


async def test_a_socket_has_a_limit_of_subscriptions(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    async with connect(site.host) as client:
        for number in range(MAX_SUBSCRIPTIONS):
            await client.send("subscribe", task_id=task_id_of(manual_run.id) if number else manual_run.id, after=1)
            if number < 2:
                await client.expect("subscribed")
            else:
                assert (await client.expect_error())["code"] == "ALREADY_SUBSCRIBED"
    runs = [manual_run, *[await start_manual_run(site.store) for _ in range(MAX_SUBSCRIPTIONS)]]
    async with connect(site.host) as client:
        for each in runs[:MAX_SUBSCRIPTIONS]:
            await client.send("subscribe", task_id=each.id, after=1)
            await client.expect("subscribed")
        await client.send("subscribe", task_id=runs[-1].id)
        assert (await client.expect_error())["code"] == "TOO_MANY_STREAMS"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b'{"type":"ping"}', SocketClose.UNSUPPORTED),
        ("x" * (MAX_FRAME_BYTES + 1), SocketClose.TOO_LARGE),
        ("\u3042" * (MAX_FRAME_BYTES // 2), SocketClose.TOO_LARGE),
        ("[" * (MAX_JSON_DEPTH + 1) + "]" * (MAX_JSON_DEPTH + 1), SocketClose.TOO_DEEP),
    ],
    ids=["bytes", "long", "long in bytes", "deep"],
)
async def test_a_hostile_frame_closes_the_socket_with_its_code(
    site: Site, frame: str | bytes, code: SocketClose
) -> None:
    async with connect(site.host) as client:
        await client.send_raw(frame)
        await client.check_closed(code)


async def test_text_that_is_not_utf8_closes_the_socket(site: Site) -> None:
    async with connect(site.host) as client:
        await client.connection.send(b"\xff\xfe", text=True)
        await client.check_closed(SocketClose.MALFORMED)


async def test_an_idle_socket_sends_pings(workshop: AgentWorkspace) -> None:
    async with (
        serve(workshop, workers=0, limits=StreamLimits(keepalive_seconds=0.03)) as own,
        connect(own.host) as client,
    ):
        assert [await with_timeout(client.connection.recv()) for _ in range(3)] == 3 * [PING]


async def test_a_server_that_stops_closes_the_socket(workshop: AgentWorkspace) -> None:
    async with serve(workshop, workers=0) as own, connect(own.host) as client:
        await client.check_open()
        own.streams.close()
        await client.check_closed(SocketClose.CLOSING)


async def test_a_socket_beyond_the_limit_is_rejected(workshop: AgentWorkspace) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(max_streams=1)) as own, connect(own.host):
        with pytest.raises(InvalidStatus) as refused:
            async with connect(own.host):
                pass
        answer = refused.value.response
        assert (answer.status_code, b"TOO_MANY_STREAMS" in (answer.body or b"")) == (503, True)


async def test_a_stalled_client_is_disconnected_and_resumes_without_loss(workshop: AgentWorkspace) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(stall_timeout_seconds=0.1)) as own:
        manual_run = await start_manual_run(own.store)
        async with connect(own.host) as client:
            await client.send("subscribe", session_id=manual_run.run.thread_id)
            await client.expect("subscribed")
            client.connection.transport.pause_reading()
            while own.streams.open_count:
                await manual_run.say("x" * 100_000)
            client.connection.transport.resume_reading()
            seen, cursor = await _rest(client)
            assert client.connection.close_code == SocketClose.TOO_SLOW
        async with connect(own.host) as client:
            await client.send("subscribe", session_id=manual_run.run.thread_id, after=cursor)
            await client.expect("subscribed")
            await manual_run.finish()
            while (frame := await client.next())["type"] == "event":
                seen.append(frame["seq"])
        assert seen == [seq for seq, _ in await own.log(manual_run.id)]


async def _rest(client: SocketClient) -> tuple[list[int], Json]:
    """Return the numbers of the remaining events until the socket is closed, and the last cursor."""
    seen: list[int] = []
    cursor: Json = None
    with suppress(ConnectionClosed):
        while True:
            frame = await client.next()
            seen.append(frame["seq"])
            cursor = frame["cursor"]
    return seen, cursor


async def test_closed_sockets_leave_no_subscribers(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    before = site.streams.open_count
    for _ in range(5):
        async with connect(site.host) as client:
            await client.send("subscribe", task_id=manual_run.id)
            await client.send("subscribe", session_id=manual_run.run.thread_id)
            await client.expect("subscribed")

    async def are_closed() -> bool:
        return site.streams.open_count <= before

    await eventually(are_closed)


_IDS = st.integers(0, 10**9).map(lambda number: RunId(f"run_{number:x}"))


@given(st.dictionaries(_IDS, st.integers(0, 10**12), min_size=1, max_size=20))
def test_a_cursor_survives_encoding_and_parsing(positions: dict[RunId, int]) -> None:
    newest = next(reversed(positions))
    read = parse_session_cursor(SessionCursor(dict(positions), newest, newest_seq=positions[newest]).encode())
    assert (read.positions, read.newest) == (positions, newest)


@given(st.text())
def test_any_text_is_a_valid_cursor_or_rejected(text: str) -> None:
    try:
        cursor = parse_session_cursor(text)
    except BadCursor:
        return
    assert parse_session_cursor(cursor.encode()).encode() == cursor.encode()
