"""A workspace controlled by a test: it writes agents and scripts, and opens the workspace to run them."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from holdfast.agent.model_stream import StreamTimings
from holdfast.agent.run_context import LoopConfig, RetryPolicy
from holdfast.bootstrap.workspace import OpenWorkspace, Options, open_workspace
from holdfast.domain.content import Json
from holdfast.domain.context import ReadContext
from holdfast.domain.events import Custom, Event, TextMessageContent, TextMessageStart, decode_event
from holdfast.domain.events.custom import HoldfastEvent, MessagesAbandoned, from_custom
from holdfast.domain.ids import SpaceId
from holdfast.domain.instant import Millis, instant
from holdfast.domain.interrupt import Interrupt, InterruptStatus
from holdfast.domain.message import Message
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.step import Lane, Step
from holdfast.domain.thread import NewThread
from holdfast.domain.timer import NewTimer
from holdfast.testing.clock import HeldClock
from holdfast.testing.openai_server import StubOpenAIServer
from holdfast.testing.stream_verifier import verify_stream
from holdfast.tools.tool import Tool
from tests.builders import user
from tests.support.empty_database import create_database

Turn: TypeAlias = dict[str, Json]

SPACE: Final = DEFAULT_SPACE
HANG_TIMEOUT_SECONDS: Final = 60.0
"""Seconds after which a test counts as hanging."""
QUICK_RETRIES: Final = RetryPolicy(max_attempts=3, first_delay_seconds=0.01)
STAND_IN: Final = "local:stand-in"

E = TypeVar("E", bound=HoldfastEvent)


def say(text: str, **more: Json) -> Turn:
    """Return a turn in which the model answers with text."""
    return {"say": text, **more}


def call(name: str, **arguments: Json) -> dict[str, Json]:
    """Return a tool call of the model."""
    return {"name": name, "arguments": arguments}


def calling(*calls: dict[str, Json], **more: Json) -> Turn:
    """Return a turn in which the model calls tools."""
    return {"call": list(calls), **more}


class AgentWorkspace:
    """A workspace and its database, which a test can open repeatedly."""

    def __init__(self, folder: Path, database: str | Path) -> None:
        self.folder = folder
        self.database = database
        folder.mkdir()
        if isinstance(database, Path) and database.parent.is_dir() and not database.exists():
            create_database(database)

    def agent(self, *turns: Turn, name: str = "bot", **settings: Json) -> None:
        """Write an agent whose model follows a script."""
        self.script(*turns, agent=name)
        self.write(f"agents/{name}/AGENT.md", "Do as you are told.")
        self.configure(name, **settings)

    def configure(self, name: str = "bot", **settings: Json) -> None:
        """Write the settings of an agent; it accepts tasks unless they say otherwise."""
        defaults: dict[str, Json] = {"model": "scripted:script.json", "task": {"enabled": True}}
        self.write(f"agents/{name}/agent.json", {**defaults, **settings})

    def script(self, *turns: Turn, agent: str = "bot", **more: Json) -> None:
        """Write the script of an agent's model."""
        self.write(f"agents/{agent}/script.json", {"turns": list(turns), **more})

    def provider(self, server: StubOpenAIServer, *, lane: Lane = Lane.DIRECT, **settings: Json) -> None:
        """Configure a stub server as the provider `local`, whose models take a lane."""
        providers: Json = {"local": {"api": "openai", "base_url": server.url, **settings}}
        off: Json = ["local"] if lane is Lane.LIBRARY else []
        self.write("settings.json", {"providers": providers, "direct_lane_off": off})

    def write(self, name: str, content: str | dict[str, Json]) -> None:
        """Write a file of the workspace atomically."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content.encode() if isinstance(content, str) else msgspec.json.encode(content)
        new = path.with_suffix(".new")
        new.write_bytes(text)
        new.replace(path)

    @asynccontextmanager
    async def open(
        self,
        *tools: Tool,
        clock: HeldClock | None = None,
        retry_policy: RetryPolicy = QUICK_RETRIES,
        stream_timings: StreamTimings | None = None,
        **options: Any,
    ) -> AsyncIterator["AgentRuntime"]:
        """Open the workspace, with an engine that runs its agents."""
        loop_config = LoopConfig(retry_policy=retry_policy, stream_timings=stream_timings or StreamTimings())
        all_options = Options(tools=tools, loop_config=loop_config, **options)
        async with open_workspace(self.folder, database=self.database, options=all_options, clock=clock) as holdfast:
            yield AgentRuntime(holdfast, clock)


class AgentRuntime:
    """An open workspace."""

    def __init__(self, holdfast: OpenWorkspace, clock: HeldClock | None = None) -> None:
        self.holdfast = holdfast
        self.store = holdfast.store
        self.runs = holdfast.runs
        self._clock = clock

    async def start(self, text: str = "go", *, agent: str = "bot", space: SpaceId = SPACE, **options: Any) -> Run:
        """Start a run with a user message."""
        new = NewRun(**{"thread": NewThread(agent_type=agent), "messages": [user(text)], **options})
        return (await self.runs.start(space, new)).run

    async def run_to_end(self, text: str = "go", **options: Any) -> Run:
        """Start a run and wait for its end."""
        return await self.wait_until_ended(await self.start(text, **options))

    async def wait_until_ended(self, run: Run) -> Run:
        """Wait until a run has ended, and return it."""
        with self.holdfast.watcher.watch(run.space_id, run.id) as watch:
            async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
                await watch.wait_past(sys.maxsize)  # returns only at its end
        return await self.get(run)

    async def wait_for_interrupts(self, run: Run, count: int = 1) -> list[Interrupt]:
        """Wait until a run and its children have so many open interrupts, and return them."""
        async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
            while len(interrupts := await self.open_interrupts(run)) < count:
                for each in (run, *await self.store.runs.children(run.space_id, run.id)):
                    assert (current := await self.get(each)).status is not RunStatus.FAILED, current.error
                await asyncio.sleep(0.002)
        return interrupts

    async def wait_for_status(self, run: Run, *statuses: RunStatus) -> Run:
        """Wait until a run is in one of these statuses, and return it."""
        await self.wait_for_event(run, lambda _: False, statuses=statuses)
        return await self.get(run)

    async def wait_for_event(
        self, run: Run, matches: Callable[[Event], bool], *, statuses: Sequence[RunStatus] = ()
    ) -> list[Event]:
        """Wait for an event in the log of a run, or for one of these statuses; return its events."""
        seq = 0
        with self.holdfast.watcher.watch(run.space_id, run.id) as watch:
            async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
                while True:
                    head = await watch.wait_past(seq)
                    assert head is not None
                    seq = head.last_event_seq
                    events = [decode_event(event.data) for event in await self.store.events.after(run.space_id, run.id)]
                    if head.status in statuses or any(map(matches, events)):
                        return events
                    assert not head.status.terminal, await self.get(run)

    async def get(self, run: Run) -> Run:
        """Return the current state of a run."""
        return await self.store.runs.get(run.space_id, run.id)

    async def child(self, run: Run, index: int = 0) -> Run:
        """Return a child of a run."""
        return (await self.store.runs.children(run.space_id, run.id))[index]

    async def events(self, run: Run) -> list[Event]:
        """Return the events of a run, which must be a valid stream."""
        status = (await self.get(run)).status
        events = [
            decode_event(event.data) for event in await self.store.events.after(run.space_id, run.id, limit=10_000)
        ]
        verify_stream(events, complete=status.terminal)
        return events

    async def custom_events(self, run: Run, kind: type[E]) -> list[E]:
        """Return the `holdfast.*` events of one kind."""
        customs = [from_custom(event) for event in await self.events(run) if isinstance(event, Custom)]
        return [event for event in customs if isinstance(event, kind)]

    async def check_abandoned(self, run: Run) -> None:
        """Check that abandoned messages are marked in the log and absent from the conversation."""
        events, stored_ids = await self.events(run), {message.id for message in await self.messages(run)}
        started_ids = {event.message_id for event in events if isinstance(event, TextMessageStart)}
        void = await self.custom_events(run, MessagesAbandoned)
        assert started_ids - stored_ids <= {name for each in void for name in each.message_ids}
        assert stored_ids.isdisjoint(name for each in void for name in each.message_ids)
        for each in void:
            later_events = [
                event for event in events[each.through :] if isinstance(event, TextMessageContent | TextMessageStart)
            ]
            assert not {event.message_id for event in later_events} & set(each.message_ids)

    async def messages(self, run: Run) -> list[Message]:
        """Return the messages of a run."""
        return await self.store.messages.of_run(run.space_id, run.id)

    async def texts(self, run: Run) -> list[str]:
        """Return the messages of a run as text with their role: `user: go`."""
        return [f"{message.role}: {message.content}" for message in await self.messages(run)]

    async def steps(self, run: Run) -> list[Step]:
        """Return the steps of a run."""
        return await self.store.steps.of_run(run.space_id, run.id)

    async def context(self, run: Run, call: int = -1) -> ReadContext:
        """Return the context of a model call."""
        steps = await self.store.contexts.steps(run.space_id, run.id)
        return await self.store.contexts.get(run.space_id, run.id, steps[call])

    async def open_interrupts(self, run: Run) -> list[Interrupt]:
        """Return the open interrupts of a run and its children."""
        interrupts = await self.store.interrupts.of_run(run.space_id, run.id, below=True)
        return [interrupt for interrupt in interrupts if interrupt.status is InterruptStatus.OPEN]

    async def advance(self, duration: timedelta) -> None:
        """Advance the clock, and make the engine check its timers."""
        assert self._clock is not None
        self._clock.tick(duration)
        due = instant(Millis(self._clock.now() + 10**12))
        timer = await self.store.timers.set(SPACE, NewTimer(kind="wake", due_at=due))
        await self.store.timers.cancel(SPACE, timer.id)
