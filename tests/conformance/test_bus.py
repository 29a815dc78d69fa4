"""The bus: hints that may be lost, within one process and between processes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import asyncpg
import nats
import pytest

from holdfast.bootstrap import SystemClock, open_store
from holdfast.bus.local import LocalBus
from holdfast.bus.nats import open_bus as open_nats_bus
from holdfast.bus.nats import split_url
from holdfast.bus.postgres import CHANNEL, MAX_PAYLOAD_BYTES, open_bus
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import Millis
from holdfast.domain.run import RunStatus
from holdfast.engine.watcher import Watcher
from holdfast.ports.bus import Bus, WakeHint
from holdfast.ports.log import LogAppend, LogHead
from tests.api.streams.manual_run import start_manual_run
from tests.hints import hints_of
from tests.scenario.proxy import open_proxy
from tests.schemas import fetch
from tests.support.nats import NatsServer
from tests.support.postgres import PostgresServer

TIMEOUT_SECONDS: Final = 30.0
SPACE: Final = SpaceId("acme")

Pair: TypeAlias = tuple[Bus, Bus]


def about(*names: object) -> WakeHint:
    """Return a hint for runs."""
    return WakeHint(runs=frozenset((SPACE, RunId(str(name))) for name in names))


async def heard(hints: AsyncIterator[WakeHint], until: Callable[[WakeHint], bool]) -> WakeHint:
    """Merge hints until they include the expected one."""
    wake = WakeHint()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not until(wake):
            wake |= await anext(hints)
    return wake


def everything(wake: WakeHint) -> bool:
    return wake.everything


def at_least(wanted: WakeHint) -> Callable[[WakeHint], bool]:
    return lambda wake: wake | wanted == wake


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Bus]:
    """Open a bus and wait until it listens."""
    async with open_nats_bus(url) if url.startswith("nats:") else open_bus(url) as bus:
        async with hints_of(bus) as hints:
            await heard(hints, everything)
        yield bus


@pytest.fixture(scope="module")
async def nats_url() -> AsyncIterator[str]:
    """Yield the URL of a NATS server."""
    async with NatsServer() as server:
        yield server.url()


@pytest.fixture(params=["postgres", "nats"])
def remote_url(request: pytest.FixtureRequest, postgres_url: str, nats_url: str) -> str:
    """Return the URL of a server that connects processes."""
    return postgres_url if request.param == "postgres" else nats_url


@pytest.fixture(params=["local", "postgres", "nats"])
async def buses(request: pytest.FixtureRequest, postgres_url: str, nats_url: str) -> AsyncIterator[Pair]:
    """Yield a sender and a receiver: one bus, or the buses of two processes."""
    if request.param == "local":
        bus = LocalBus()
        yield bus, bus
    else:
        url = postgres_url if request.param == "postgres" else nats_url
        async with connected(url) as here, connected(url) as there:
            yield here, there


async def test_a_hint_reaches_every_reader_as_it_was_sent(buses: Pair) -> None:
    here, there = buses
    sent = WakeHint(runs=about("a", "b").runs, ended=about("b").runs, queue=True, news=True, timers=True)
    async with hints_of(here) as near, hints_of(there) as far, hints_of(there) as further:
        here.publish(sent)
        assert [await heard(hints, at_least(sent)) for hints in (near, far, further)] == [sent] * 3


async def test_a_hint_is_delivered_in_the_same_process_before_publish_returns(buses: Pair) -> None:
    here, _ = buses
    heard = list[WakeHint]()
    with here.subscribe(heard.append):
        here.publish(about("a"))
        assert heard == [about("a")]
    here.publish(about("b"))
    assert heard == [about("a")]


async def test_hints_are_delivered_in_both_directions(buses: Pair) -> None:
    here, there = buses
    async with hints_of(here) as near:
        there.publish(about("back"))
        assert await heard(near, at_least(about("back"))) == about("back")


async def test_a_subscriber_receives_only_later_hints(buses: Pair) -> None:
    here, _ = buses
    here.publish(about("early"))
    async with hints_of(here) as hints:
        here.publish(about("late"))
        assert await anext(hints) == about("late")


async def test_a_slow_reader_receives_many_hints_as_one_and_blocks_nobody(buses: Pair) -> None:
    here, there = buses
    sent = WakeHint(runs=about(*range(100)).runs, queue=True)
    async with hints_of(there) as slow, hints_of(there) as quick:
        for number in range(100):
            here.publish(about(number))
            await asyncio.sleep(0)
        here.publish(WakeHint(queue=True))
        await heard(quick, at_least(sent))
        assert await anext(slow) == sent


async def test_a_hint_can_be_sent_without_a_subscriber(buses: Pair) -> None:
    here, there = buses
    for number in range(1000):
        here.publish(about(number))
    async with hints_of(there):
        pass
    here.publish(WakeHint(queue=True))


async def test_a_reader_that_stops_waiting_loses_nothing(buses: Pair) -> None:
    here, there = buses
    async with hints_of(there) as hints:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await anext(hints)
        here.publish(about("a"))
        assert await heard(hints, at_least(about("a"))) == about("a")
        waiting = asyncio.ensure_future(anext(hints))
        await asyncio.sleep(0)
        there.publish(about("b"))  # it has arrived when the reader gives up
        waiting.cancel()
        await asyncio.wait([waiting])
        assert await heard(hints, at_least(about("b"))) == about("b")


async def test_a_hint_does_not_come_back_to_the_process_that_sent_it(remote_url: str) -> None:
    async with connected(remote_url) as here, connected(remote_url) as there, hints_of(here) as near:
        async with hints_of(there) as far:
            here.publish(about("own"))
            assert await anext(near) == about("own")
            await heard(far, at_least(about("own")))
        there.publish(about("other"))  # whatever came back would be here before this
        assert await heard(near, at_least(about("other"))) == about("other")


async def test_hints_collected_during_a_send_are_sent_as_one_notification(postgres_url: str) -> None:
    payloads: asyncio.Queue[str] = asyncio.Queue()
    listener = await asyncpg.connect(postgres_url)
    try:
        await listener.add_listener(CHANNEL, lambda *received: payloads.put_nowait(received[3]))
        async with connected(postgres_url) as here, connected(postgres_url) as there, hints_of(there) as hints:
            for number in range(60):
                here.publish(about(number))
            await heard(hints, at_least(about(*range(60))))
        sent = 0
        await listener.execute(f"NOTIFY {CHANNEL}, 'the last one'")
        while await payloads.get() != "the last one":
            sent += 1
    finally:
        await listener.close()
    assert 1 <= sent <= 2


async def test_a_hint_that_is_too_large_says_that_everything_may_have_changed(postgres_url: str) -> None:
    large = about(*(f"run_{number:0100}" for number in range(MAX_PAYLOAD_BYTES // 100)))
    async with connected(postgres_url) as here, connected(postgres_url) as there, hints_of(there) as hints:
        here.publish(WakeHint(runs=large.runs, queue=True))
        assert await heard(hints, everything) == WakeHint(queue=True, everything=True)
        here.publish(WakeHint(runs=large.runs, news=True))
        assert await heard(hints, everything) == WakeHint(news=True, everything=True)
        here.publish(WakeHint(ended=large.runs, timers=True))
        assert await heard(hints, everything) == WakeHint(timers=True, everything=True)


async def test_a_hint_of_any_size_arrives(postgres_url: str) -> None:
    async with connected(postgres_url) as here, connected(postgres_url) as there, hints_of(there) as hints:
        for size in (7600, 7700, 7800, 7820, 7840, 7860, 7880, 7900, 7920, 8000, 8200):
            sent = about("x" * size)
            here.publish(sent)
            assert await heard(hints, lambda wake: wake != WakeHint()) in (sent, WakeHint(everything=True))


async def test_foreign_notifications_are_ignored(postgres_url: str) -> None:
    raised: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
    async with connected(postgres_url) as bus, hints_of(bus) as hints:
        other = await asyncpg.connect(postgres_url)
        for payload in ("", "not a hint", '0 {"queue": 3}', '0 {"queue": true}'):
            await other.execute("SELECT pg_notify($1, $2)", CHANNEL, payload)
        await heard(hints, lambda wake: wake.queue)
        await other.close()
    assert raised == []


async def test_a_bus_reconnects_after_a_lost_connection_and_wakes_its_subscribers(postgres_url: str) -> None:
    url = postgres_url
    async with connected(url) as here, connected(url) as there, hints_of(here) as near, hints_of(there) as far:
        await _cut(url)
        await heard(near, everything)  # nobody had to send anything for that
        await heard(far, everything)
        here.publish(about("there"))
        await heard(far, at_least(about("there")))
        there.publish(about("back"))
        await heard(near, at_least(about("back")))


async def test_a_bus_reconnects_when_the_server_has_ended_its_session(postgres_url: str, tmp_path: Path) -> None:
    async with (
        open_proxy(postgres_url, tmp_path) as proxy,
        connected(proxy.url) as here,
        hints_of(here) as near,
        connected(postgres_url) as there,
        hints_of(there) as far,
    ):
        await proxy.announce_shutdown()
        for _ in range(100):  # until the driver has read it, without noticing
            await asyncio.sleep(0)
        here.publish(about("lost"))
        await heard(near, everything)
        here.publish(about("there"))
        await heard(far, at_least(about("there")))


async def _cut(url: str) -> None:
    """Terminate the connections of all buses."""
    cut = await fetch(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'holdfast-bus' AND datname = current_database()",
    )
    assert cut == [(True,)] * 2


async def test_publish_does_not_fail_without_a_server(own_postgres: PostgresServer) -> None:
    url = own_postgres.url()
    async with connected(url) as here, connected(url) as there, hints_of(here) as near, hints_of(there) as far:
        await own_postgres.kill()
        for number in range(100):
            here.publish(about(number))
            await asyncio.sleep(0)
        assert await heard(near, at_least(about(*range(100)))) == about(*range(100))
        await own_postgres.start()
        await heard(far, everything)
        await heard(near, everything)
        there.publish(about("again"))
        await heard(near, at_least(about("again")))


async def test_a_bus_opens_and_closes_while_there_is_no_server(own_postgres: PostgresServer) -> None:
    await own_postgres.stop()
    async with asyncio.timeout(TIMEOUT_SECONDS), open_bus(own_postgres.url()) as bus, hints_of(bus) as hints:
        bus.publish(about("a"))
        assert await anext(hints) == about("a")
        await own_postgres.start()
        await heard(hints, everything)
    async with asyncio.timeout(TIMEOUT_SECONDS), open_bus(own_postgres.url()):
        pass


def appended(*events: str, last: int) -> LogAppend:
    """Return an append to the log of one run."""
    head = LogHead(space_id=SPACE, run_id=RunId("r"), status=RunStatus.RUNNING, last_event_seq=last)
    return LogAppend(head=head, events=[("CUSTOM", event) for event in events], at=Millis(5))


async def test_nats_carries_the_events_of_a_run(nats_url: str) -> None:
    async with connected(nats_url) as here, connected(nats_url) as there, hints_of(there) as far:
        sent = WakeHint(runs=about("r").runs, grown=(appended('{"ü": 1}', "{}", last=2),))
        here.publish(sent)
        while not (hint := await heard(far, at_least(about("r")))).grown:
            here.publish(sent)  # what was heard is the hint of a new connection
        append = hint.grown[0]
        assert [(event.seq, event.data) for event in append.after(0)] == [(1, '{"ü": 1}'.encode()), (2, b"{}")]


async def test_a_hint_that_is_too_large_for_nats_is_sent_without_events_or_as_everything(nats_url: str) -> None:
    async with connected(nats_url) as here, connected(nats_url) as there, hints_of(there) as far:
        here.publish(WakeHint(runs=about("r").runs, grown=(appended("x" * 2_000_000, last=1),)))
        assert not (await heard(far, at_least(about("r")))).grown
        here.publish(WakeHint(runs=about(*(f"{number:0100}" for number in range(20_000))).runs, queue=True))
        assert (await heard(far, lambda hint: hint.queue)).everything


async def test_clusters_on_one_nats_server_do_not_hear_each_other(nats_url: str) -> None:
    first, second = f"{nats_url}one", f"{nats_url}two"
    async with (
        connected(first) as one,
        connected(second) as two,
        connected(second) as sender,
        hints_of(one) as ones,
        hints_of(two) as twos,
    ):
        sender.publish(about("a"))
        await heard(twos, at_least(about("a")))
        one.publish(about("own"))
        assert await anext(ones) == about("own")


async def test_a_bus_survives_a_killed_nats_server_and_foreign_messages() -> None:
    async with NatsServer() as server:
        url = server.url()
        async with connected(url) as here, connected(url) as there, hints_of(here) as near, hints_of(there) as far:
            client = await nats.connect(url.rstrip("/"))
            await client.publish(split_url(url)[1], b"not a hint")
            await client.close()
            server.kill()
            here.publish(about("lost"))
            assert await anext(near) == about("lost")
            await server.start()
            await heard(near, everything)
            await heard(far, everything)
            here.publish(about("there"))
            await heard(far, at_least(about("there")))


@pytest.mark.parametrize("url", ["nats://", "http://host", "nats://host:0", "nats://host:x", "nats://host/a b"])
def test_a_wrong_url_of_a_nats_server_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        split_url(url)


async def test_another_process_has_the_events_of_a_run_without_reading_them(
    nats_url: str, postgres: PostgresServer
) -> None:
    database, space = await postgres.create_database("nats"), SpaceId("default")
    async with (
        connected(f"{nats_url}pair") as here,
        connected(f"{nats_url}pair") as there,
        open_store(database, bus=here) as writing,
        open_store(database, bus=there) as reading,
    ):
        await writing.spaces.create(space, name="default")
        run = await start_manual_run(writing)
        watcher = Watcher(bus=there, events=reading.events, leases=reading.leases, clock=SystemClock())
        async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watcher.run())
            with watcher.watch(space, run.id) as watch:
                seen = await watch.wait_past(0)
                assert seen is not None
                await run.say("one", "two")
                await watch.wait_past(seen.last_event_seq)
                log = await reading.events.after(space, run.id, seq=seen.last_event_seq)
                assert watcher.recent_events(space, run.id, seen.last_event_seq) == log != []
            watching.cancel()
