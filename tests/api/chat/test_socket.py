"""Tasks and sessions are followed over one socket, after a cursor, with nothing lost or doubled."""

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
from tests.api.chat.line import Line, line
from tests.api.conftest import fill
from tests.api.site import Site, eventually, served
from tests.api.streams.stage import Hand, begun, soon
from tests.builders import claim
from tests.scenario.agents.workshop import SPACE, Workshop


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Yield a server without workers, which tests share: they work on runs by hand."""
    folder = tmp_path_factory.mktemp("socket")
    async with served(fill(Workshop(folder / "workspace", folder / "holdfast.db")), workers=0) as stage:
        yield stage


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """Return a workspace on SQLite."""
    return fill(Workshop(tmp_path / "workspace", tmp_path / "holdfast.db"))


async def after(stage: Site, hand: Hand, **more: Any) -> Hand:
    """Make the next run of a session, and take it in hand."""
    new = NewRun(thread=hand.run.thread_id, **more)
    run = (await stage.store.runs.create(SPACE, new)).run
    return Hand(stage.store, run, await claim(stage.store))


async def events(found: Line, number: int) -> list[tuple[str, int]]:
    """Return of the next events to which task they belong, and their numbers."""
    told = [await found.expect("event") for _ in range(number)]
    return [(each["task_id"], each["seq"]) for each in told]


def numbers(hand: Hand, first: int, last: int) -> list[tuple[str, int]]:
    """Return events of a task, as `events` does."""
    return [(task_id_of(hand.id), seq) for seq in range(first, last + 1)]


async def test_a_task_is_replayed_and_then_followed_to_its_end(stage: Site) -> None:
    hand = await begun(stage)
    await hand.say("a", "b")
    name = task_id_of(hand.id)
    async with line(stage.host) as found:
        await found.send("subscribe", id="1", task_id=name)
        assert await found.next() == {"type": "subscribed", "id": "1", "task_id": name, "after": 0}
        first = await found.expect("event")
        assert list(first) == ["type", "task_id", "seq", "data"]
        assert (first["seq"], first["data"]["type"]) == (1, "RUN_STARTED")
        assert await events(found, 3) == numbers(hand, 2, 4)
        await hand.say("c")
        assert await events(found, 1) == numbers(hand, 5, 5)
        await hand.finish()
        log = await stage.log(hand.id)
        told = [await found.expect("event") for _ in range(len(log) - 5)]
        assert [msgspec.json.encode(each["data"]) for each in told] == [data for _, data in log[5:]]
        assert await found.next() == {"type": "ended", "task_id": name, "reason": "ended"}
        await found.is_open()


async def test_a_task_goes_on_after_a_number_and_by_either_name(stage: Site) -> None:
    hand = await begun(stage)
    await hand.say(*"abc")
    async with line(stage.host) as found:
        await found.send("subscribe", task_id=hand.id, after=3)
        assert (await found.expect("subscribed"))["after"] == 3
        assert [(await found.expect("event"))["seq"] for _ in range(2)] == [4, 5]
        await found.send("subscribe", task_id=task_id_of(hand.id), after=5)
        await found.expect("subscribed")


async def test_nothing_comes_after_the_end_of_a_subscription(stage: Site) -> None:
    hand, other = await begun(stage), await begun(stage)
    async with line(stage.host) as found:
        for each in (hand, other):
            await found.send("subscribe", task_id=each.id, after=1)
            await found.expect("subscribed")
        await found.send("unsubscribe", id="u", task_id=hand.id)
        assert await found.next() == {"type": "unsubscribed", "id": "u", "task_id": hand.id}
        await hand.say("unheard")
        await other.say("heard")
        assert {(await found.expect("event"))["task_id"] for _ in range(other.said)} == {other.id}
        await found.send("subscribe", task_id=hand.id, after=1)
        await found.expect("subscribed")


async def test_a_session_is_followed_over_all_its_tasks(stage: Site) -> None:
    first = await begun(stage)
    await first.finish()
    second = await after(stage, first)
    session = first.run.thread_id
    async with line(stage.host) as found:
        await found.send("subscribe", id="s", session_id=session)
        answer = await found.expect("subscribed")
        assert (answer["id"], answer["session_id"]) == ("s", session)
        told = await found.expect("event")
        assert list(told) == ["type", "session_id", "task_id", "cursor", "seq", "data"]
        assert (told["session_id"], told["task_id"], told["seq"]) == (session, task_id_of(second.id), 1)
        await second.say("a")
        assert await events(found, 2) == numbers(second, 2, 3)
        await second.finish()
        while (told := await found.next())["type"] == "event":
            assert told["task_id"] == task_id_of(second.id)
        assert (told["type"], told["reason"], told["task_id"]) == ("ended", "ended", task_id_of(second.id))
        third = await after(stage, first)
        assert await events(found, 1) == numbers(third, 1, 1)


class Reader:
    """Follows a session over one socket after the other: each is torn after a few events."""

    def __init__(self, stage: Site, session: ThreadId) -> None:
        self._stage = stage
        self._session = session
        self._cursor: Json = "0"
        self._patience = Random(7)
        self.seen: list[tuple[str, int]] = []

    async def read(self, step: Callable[[], Awaitable[None]]) -> None:
        """Have something happen while a socket is open, and read until all that has happened was seen."""
        happened = False
        while not happened or len(self.seen) < await self._length():
            async with line(self._stage.host) as found:
                await found.send("subscribe", session_id=self._session, after=self._cursor)
                self._cursor = (await found.expect("subscribed"))["cursor"]
                if not happened:
                    await step()
                    happened = True
                await self._take(found, self._patience.randint(1, 4))

    async def _take(self, found: Line, most: int) -> None:
        while most and len(self.seen) < await self._length():
            told = await found.next()
            self._cursor = told["cursor"]
            if told["type"] == "event":
                self.seen.append((told["task_id"], told["seq"]))
                most -= 1

    async def _length(self) -> int:
        runs = await self._stage.store.runs.page(SPACE, where=RunFilter(thread_id=self._session))
        return sum([len(await self._stage.log(run.id)) for run in runs.items])


async def test_a_session_that_is_cut_anywhere_goes_on_without_a_gap_or_a_double(stage: Site) -> None:
    first = await begun(stage)
    reader = Reader(stage, first.run.thread_id)
    hands = [first]

    async def next_task() -> None:
        hands.append(await after(stage, first, base=RunBase(run_id=first.id)))

    await reader.read(lambda: first.say(*"abcde"))
    await reader.read(first.finish)
    await reader.read(next_task)
    await reader.read(next_task)  # two tasks of one session at work side by side
    for hand in hands[1:]:
        await reader.read(lambda hand=hand: hand.say(*"fghij"))  # type: ignore[misc]
    await reader.read(hands[2].finish)
    await reader.read(lambda: hands[1].say("k"))
    await reader.read(next_task)
    await reader.read(hands[1].finish)
    expected = [(task_id_of(hand.id), seq) for hand in hands for seq, _ in await stage.log(hand.id)]
    assert sorted(reader.seen) == sorted(expected)


async def test_a_session_without_a_cursor_begins_with_what_is_under_way(stage: Site) -> None:
    ended = await begun(stage)
    await ended.finish()
    async with line(stage.host) as found:
        await found.send("subscribe", session_id=ended.run.thread_id)
        cursor = (await found.expect("subscribed"))["cursor"]
        await found.is_open()
    assert cursor == f"{task_id_of(ended.id)}:{len(await stage.log(ended.id))}"
    async with line(stage.host) as found:
        await found.send("subscribe", session_id=ended.run.thread_id, after=cursor)
        await found.expect("subscribed")
        assert (await found.expect("ended"))["task_id"] == task_id_of(ended.id)
        await found.is_open()


async def test_a_task_that_was_deleted_is_gone(stage: Site) -> None:
    hand = await begun(stage)
    await hand.finish()
    kept = await after(stage, hand)
    cursor = f"{task_id_of(hand.id)}:1,{task_id_of(kept.id)}:1"
    await kept.finish()
    async with line(stage.host) as found:
        await stage.store.runs.delete(SPACE, kept.id)
        await found.send("subscribe", session_id=hand.run.thread_id, after=cursor)
        assert (await found.refusal())["code"] == "BAD_CURSOR"
        await found.send("subscribe", task_id=kept.id)
        assert (await found.refusal())["code"] == "TASK_NOT_FOUND"


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
async def test_a_frame_that_cannot_be_done_is_answered_and_the_socket_stays_open(
    stage: Site, frame: str, code: str
) -> None:
    async with line(stage.host) as found:
        await found.raw(frame)
        error = await found.refusal()
        assert error["code"] == code and error["message"]
        await found.is_open()


async def test_an_answer_has_the_id_of_its_frame(stage: Site) -> None:
    hand = await begun(stage)
    async with line(stage.host) as found:
        await found.raw("ping")
        assert await found.next() == {"type": "pong"}
        await found.send("subscribe", id="a", task_id="none")
        told = await found.expect("error")
        assert (told["id"], told["task_id"]) == ("a", "none")
        await found.send("sing", id="b")
        assert (await found.expect("error"))["id"] == "b"
        for code in (None, "ALREADY_SUBSCRIBED"):
            await found.send("subscribe", id="c", task_id=hand.id, after=1)
            answer = await found.next()
            assert (answer["id"], answer.get("error", {}).get("code")) == ("c", code)


@pytest.mark.parametrize("after", ["x", "task_a", "task_a:", "task_a:1,", ":1", "task_a:-1", "a:1,a:2", "1", " "])
async def test_a_cursor_of_a_session_that_is_none_is_refused(stage: Site, after: str) -> None:
    hand = await begun(stage)
    async with line(stage.host) as found:
        await found.send("subscribe", session_id=hand.run.thread_id, after=after)
        assert (await found.refusal())["code"] == "BAD_CURSOR"
        await found.send("subscribe", session_id=hand.run.thread_id, after=f"{hand.id}:99")
        await found.expect("subscribed")
        assert (await found.refusal())["code"] == "BAD_CURSOR"
        await found.is_open()


async def test_a_cursor_of_another_session_is_refused(stage: Site) -> None:
    hand, other = await begun(stage), await begun(stage)
    async with line(stage.host) as found:
        await found.send("subscribe", session_id=hand.run.thread_id, after=f"{other.id}:1")
        assert (await found.refusal())["code"] == "BAD_CURSOR"


async def test_a_socket_follows_so_much_and_no_more(stage: Site) -> None:
    hand = await begun(stage)
    async with line(stage.host) as found:
        for number in range(MAX_SUBSCRIPTIONS):
            await found.send("subscribe", task_id=task_id_of(hand.id) if number else hand.id, after=1)
            if number < 2:
                await found.expect("subscribed")
            else:
                assert (await found.refusal())["code"] == "ALREADY_SUBSCRIBED"
    runs = [hand, *[await begun(stage) for _ in range(MAX_SUBSCRIPTIONS)]]
    async with line(stage.host) as found:
        for each in runs[:MAX_SUBSCRIPTIONS]:
            await found.send("subscribe", task_id=each.id, after=1)
            await found.expect("subscribed")
        await found.send("subscribe", task_id=runs[-1].id)
        assert (await found.refusal())["code"] == "TOO_MANY_STREAMS"


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b'{"type":"ping"}', SocketClose.UNSUPPORTED),
        ("x" * (MAX_FRAME_BYTES + 1), SocketClose.TOO_LARGE),
        ("\u3042" * (MAX_FRAME_BYTES // 2), SocketClose.TOO_LARGE),
        ("[" * (MAX_JSON_DEPTH + 1) + "]" * (MAX_JSON_DEPTH + 1), SocketClose.TOO_DEEP),
    ],
    ids=["bytes", "long", "long in bytes", "deep"],
)
async def test_a_hostile_frame_closes_the_socket_with_its_code(
    stage: Site, frame: str | bytes, why: SocketClose
) -> None:
    async with line(stage.host) as found:
        await found.raw(frame)
        await found.is_closed(why)


async def test_text_that_is_not_utf8_closes_the_socket(stage: Site) -> None:
    async with line(stage.host) as found:
        await found.connection.send(b"\xff\xfe", text=True)
        await found.is_closed(SocketClose.MALFORMED)


async def test_a_silent_socket_shows_signs_of_life(workshop: Workshop) -> None:
    async with served(workshop, workers=0, habits=StreamLimits(keepalive_seconds=0.03)) as own, line(own.host) as found:
        assert [await soon(found.connection.recv()) for _ in range(3)] == 3 * [PING]


async def test_a_server_that_stops_closes_the_socket(workshop: Workshop) -> None:
    async with served(workshop, workers=0) as own, line(own.host) as found:
        await found.is_open()
        own.feeds.close()
        await found.is_closed(SocketClose.CLOSING)


async def test_more_sockets_than_may_be_open_are_refused(workshop: Workshop) -> None:
    async with served(workshop, workers=0, habits=StreamLimits(max_streams=1)) as own, line(own.host):
        with pytest.raises(InvalidStatus) as refused:
            async with line(own.host):
                pass
        answer = refused.value.response
        assert (answer.status_code, b"TOO_MANY_STREAMS" in (answer.body or b"")) == (503, True)


async def test_a_reader_that_takes_nothing_is_cut_off_and_misses_nothing(workshop: Workshop) -> None:
    async with served(workshop, workers=0, habits=StreamLimits(stall_timeout_seconds=0.1)) as own:
        hand = await begun(own)
        async with line(own.host) as found:
            await found.send("subscribe", session_id=hand.run.thread_id)
            await found.expect("subscribed")
            found.connection.transport.pause_reading()
            while own.feeds.open_count:
                await hand.say("x" * 100_000)
            found.connection.transport.resume_reading()
            seen, cursor = await _rest(found)
            assert found.connection.close_code == SocketClose.TOO_SLOW
        async with line(own.host) as found:
            await found.send("subscribe", session_id=hand.run.thread_id, after=cursor)
            await found.expect("subscribed")
            await hand.finish()
            while (told := await found.next())["type"] == "event":
                seen.append(told["seq"])
        assert seen == [seq for seq, _ in await own.log(hand.id)]


async def _rest(found: Line) -> tuple[list[int], Json]:
    """Return the numbers of all events that are still to come until the socket is closed, and the last cursor."""
    seen: list[int] = []
    cursor: Json = None
    with suppress(ConnectionClosed):
        while True:
            told = await found.next()
            seen.append(told["seq"])
            cursor = told["cursor"]
    return seen, cursor


async def test_sockets_leave_nothing_behind(stage: Site) -> None:
    hand = await begun(stage)
    before = stage.feeds.open_count
    for _ in range(5):
        async with line(stage.host) as found:
            await found.send("subscribe", task_id=hand.id)
            await found.send("subscribe", session_id=hand.run.thread_id)
            await found.expect("subscribed")

    async def are_gone() -> bool:
        return stage.feeds.open_count <= before

    await eventually(are_gone)


_IDS = st.integers(0, 10**9).map(lambda number: RunId(f"run_{number:x}"))


@given(st.dictionaries(_IDS, st.integers(0, 10**12), min_size=1, max_size=20))
def test_a_cursor_stands_for_its_trail(positions: dict[RunId, int]) -> None:
    newest = next(reversed(positions))
    read = parse_session_cursor(SessionCursor(dict(positions), newest, newest_seq=positions[newest]).encode())
    assert (read.positions, read.newest) == (positions, newest)


@given(st.text())
def test_any_text_is_a_cursor_or_is_refused(text: str) -> None:
    try:
        trail = parse_session_cursor(text)
    except BadCursor:
        return
    assert parse_session_cursor(trail.encode()).encode() == trail.encode()
