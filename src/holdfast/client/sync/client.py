# Generated from the async client: run `python -m tests.client.sync_source` to write it.
"""`SyncClient`: the Python API of Holdfast over HTTP."""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias, TypeVar, overload

import httpx2
import msgspec

from holdfast.client.api import RunEvent, RunInput, output_of
from holdfast.client.sync.connection import SyncConnection, new_key
from holdfast.client.sync.resources import (
    SyncRemoteAgents,
    SyncRemoteArtifacts,
    SyncRemoteFiles,
    SyncRemoteInterrupts,
    SyncRemoteNotifications,
    SyncRemoteRuns,
    SyncRemoteSpaces,
    SyncRemoteThreads,
)
from holdfast.client.wire import DEFAULT_RETRY_SECONDS, MAX_PAGE, WAIT_SECONDS, Outage, path_of, query_of
from holdfast.control.run_details import EventView, RunContextView
from holdfast.domain.artifact import Artifact
from holdfast.domain.content import Content, Json
from holdfast.domain.errors import ServerUnreachable, Unavailable
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.limits import Limits
from holdfast.domain.message import Message
from holdfast.domain.page import Page
from holdfast.domain.placement import OnBusy
from holdfast.domain.run import Priority, Run
from holdfast.domain.step import Step
from holdfast.tools.python_types import from_json, json_schema

T = TypeVar("T")


class SyncClient(SyncConnection):
    """A client of the server at a URL, for one space.

    Without arguments it uses `HOLDFAST_URL`, `HOLDFAST_API_KEY` and `HOLDFAST_SPACE`, or else a server on this machine.
    While the server does not answer, requests that can be repeated and streams are tried again for `retry_seconds`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        space: str | None = None,
        retry_seconds: float = DEFAULT_RETRY_SECONDS,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        super().__init__(url, key=key, space=space, retry_seconds=retry_seconds, transport=transport)
        self.agents = SyncRemoteAgents(self)
        self.threads = SyncRemoteThreads(self)
        self.runs = SyncRemoteRuns(self)
        self.interrupts = SyncRemoteInterrupts(self)
        self.artifacts = SyncRemoteArtifacts(self)
        self.files = SyncRemoteFiles(self)
        self.notifications = SyncRemoteNotifications(self)
        self.spaces = SyncRemoteSpaces(self)

    def run(self, run_id: str) -> "SyncRemoteRun":
        """Return a handle of an existing run; nothing is read yet."""
        return SyncRemoteRun(self, run_id)

    @overload
    def ask(
        self, agent: str | None, input: RunInput, *, thread: str | None = None, model: str | None = None
    ) -> Json: ...

    @overload
    def ask(
        self,
        agent: str | None,
        input: RunInput,
        *,
        returns: type[T],
        thread: str | None = None,
        model: str | None = None,
    ) -> T: ...

    def ask(
        self,
        agent: str | None,
        input: RunInput,
        *,
        returns: type[T] | None = None,
        thread: str | None = None,
        model: str | None = None,
    ) -> T | Json:
        """Run an agent and return its output, by default on a new thread; with `returns`, as that type."""
        schema = None if returns is None else json_schema(returns)
        run = self.start(agent, input, thread=thread, model=model, output_schema=schema)
        output = run.result()
        return output if returns is None else from_json(output, returns)

    def start(
        self,
        agent: str | None,
        input: RunInput,
        *,
        thread: str | None = None,
        id: str | None = None,
        model: str | None = None,
        title: str | None = None,
        base_run_id: str | None = None,
        base_sequence: int | None = None,
        on_busy: OnBusy | str = OnBusy.ENQUEUE,
        priority: Priority | str = Priority.NORMAL,
        tags: Sequence[str] = (),
        limits: Limits | None = None,
        output_schema: Mapping[str, Json] | None = None,
        idempotency_key: str | None = None,
    ) -> "SyncRemoteRun":
        """Start a run and return its handle once it is durable; without a `thread`, on a new one."""
        body = query_of(
            id=id, agent_type=agent, model=model, base_run_id=base_run_id, base_sequence=base_sequence, limits=limits
        )
        body |= query_of(output_schema=output_schema)
        body |= {"on_busy": on_busy, "priority": priority, "tags": list(tags)}
        body |= {"messages": [input]} if isinstance(input, dict) and "content" in input else {"input": input}
        path = "/runs" if thread is None else path_of("/threads/", thread, "/runs")
        if thread is None:
            body["thread"] = query_of(title=title)
        started = self.send("POST", path, Run, body=body, key=idempotency_key or new_key())
        return SyncRemoteRun(self, started.id)

    def feed(self, *, on_connection: Callable[[str], None] | None = None) -> Iterator[Json]:
        """Yield a hint `{run_id, thread_id, status, last_event_seq}` when a run of the space changes, without end.

        `on_connection` gets a message when the connection is lost and restored.
        """
        path = f"/api/spaces/{path_of('', self.space or 'default')}/feed"
        outage = Outage(self.url, retry_seconds=self.retry_seconds, notify=on_connection)
        while True:
            try:
                with self.open_stream(path) as hints:
                    outage.restored(0)
                    for hint in hints:
                        outage.progressed()
                        yield hint.fields
                raise ServerUnreachable("it closed the stream")
            except Unavailable as error:
                time.sleep(outage.delay(error))


SyncEventConnection: TypeAlias = AbstractContextManager[Iterator[RunEvent]]


class SyncRemoteRun:
    """A handle of a run on a server."""

    def __init__(self, client: SyncClient, run_id: str) -> None:
        self._client = client
        self.id = run_id
        self._path = path_of("/runs/", run_id)

    def get(self) -> Run:
        """Return the run as it is now."""
        return self._client.send("GET", self._path, Run)

    def wait(self, seconds: float | None = None) -> Run:
        """Return the run once it has ended or waits for a person, or as it is after `seconds`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            left = WAIT_SECONDS if deadline is None else max(0, min(WAIT_SECONDS, deadline - time.monotonic()))
            run = self._client.send("GET", self._path, Run, query={"wait": left})
            if run.settled or (deadline is not None and time.monotonic() >= deadline):
                return run

    def result(self) -> Json:
        """Wait for the end, and return the output; raise `RunFailed` or `Waiting` otherwise."""
        run = self.wait()
        return output_of(run, interrupts=[] if run.status.terminal else self.interrupts())

    def stream(
        self,
        *,
        after: int = 0,
        on_connection: Callable[[str], None] | None = None,
        connect: Callable[[SyncClient, str, int], SyncEventConnection] | None = None,
        retry_seconds: float | None = None,
    ) -> Generator[RunEvent, None, None]:
        """Yield each event after number `after` once, in order, until the run has ended.

        `on_connection` gets a message when the connection is lost and restored.
        """
        retry_seconds = self._client.retry_seconds if retry_seconds is None else retry_seconds
        outage = Outage(self._client.url, retry_seconds=retry_seconds, notify=on_connection)
        position = after
        while True:
            try:
                path = self._client.path(self._path)
                opened = (
                    self._client.open_stream(f"{path}/sse", position)
                    if connect is None
                    else connect(self._client, f"{path}/ws", position)
                )
                with opened as events:
                    outage.restored(position)
                    for event in events:
                        if event.seq != position + 1:
                            raise ServerUnreachable(f"it sent event {event.seq} after event {position}")
                        position = event.seq
                        outage.progressed()
                        yield event
                if (self.get()).status.terminal:
                    return
                raise ServerUnreachable("it closed the stream")
            except Unavailable as error:
                time.sleep(outage.delay(error))

    def cancel(self, reason: str | None = None) -> Run:
        """Cancel the run with its descendants."""
        return self._client.send("POST", f"{self._path}/cancel", Run, body=query_of(reason=reason))

    def interrupts(self) -> Sequence[Interrupt]:
        """Return the open questions of the run and of its descendants, newest first."""
        opened = [each for each in self._client.interrupts.list()]
        return [each for each in opened if self.id in (each.run_id, each.root_run_id)]

    def respond(self, response: Json, *, interrupt_id: str | None = None, digest: str | None = None) -> Interrupt:
        """Respond to an open interrupt of the run or of a descendant."""
        body = {"response": response, **query_of(interrupt_id=interrupt_id, digest=digest)}
        return self._client.send("POST", f"{self._path}/respond", Interrupt, body=body, key=new_key())

    def steer(self, content: Content) -> None:
        """Send a message to an active run, which reads it before its next model call."""
        body = {"content": msgspec.to_builtins(content)}
        self._client.request("POST", self._client.path(f"{self._path}/messages"), body=body, key=new_key())

    def retry(self, *, from_start: bool = False) -> "SyncRemoteRun":
        """Start a run that continues this failed or cancelled one after its last step, or from its start."""
        body = {"from": "start" if from_start else "last_step"}
        retried = self._client.send("POST", f"{self._path}/retry", Run, body=body, key=new_key())
        return SyncRemoteRun(self._client, retried.id)

    def fork(
        self, input: RunInput, *, after: int | None = None, agent: str | None = None, model: str | None = None
    ) -> "SyncRemoteRun":
        """Start a run on a new branch of the thread: from the end of this run, or after message number `after`."""
        thread, base = (self.get()).thread_id, self.id
        if after is not None:  # the message may be of an earlier run
            base = next((each.run_id or base for each in self.messages() if each.sequence == after), base)
        return self._client.start(agent, input, thread=thread, model=model, base_run_id=base, base_sequence=after)

    def messages(self, *, limit: int | None = None) -> Sequence[Message]:
        """Return the conversation up to this run, oldest first."""
        thread = (self.get()).thread_id
        return self._client.threads.messages(thread, run=self.id, limit=limit)

    def events(self, *, types: Sequence[str] = (), after: int = 0) -> Iterator[EventView]:
        """Yield the events that are in the log now."""
        cursor: str | None = str(after) if after else None
        while True:
            query = {"limit": MAX_PAGE, **query_of(type=list(types) or None, cursor=cursor)}
            page = self._client.send("GET", f"{self._path}/events", Page[EventView], query=query)
            for event in page.items:
                yield event
            cursor = page.next_cursor
            if cursor is None:
                return

    def steps(self) -> Iterator[Step]:
        """Yield the model calls and tool calls in order."""
        return self._client.pages(f"{self._path}/steps", Step)

    def context(self, step: int | None = None) -> RunContextView:
        """Return what was sent to the model, by default in the newest call."""
        return self._client.send("GET", f"{self._path}/context", RunContextView, query=query_of(step=step))

    def children(self) -> Iterator[Run]:
        """Yield the runs that this one spawned, newest first."""
        return self._client.pages(f"{self._path}/children", Run)

    def artifacts(self) -> Iterator[Artifact]:
        """Yield the artifacts of the run without their content, newest first."""
        return self._client.pages(f"{self._path}/artifacts", Artifact)
