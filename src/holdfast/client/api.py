"""What a program can do with Holdfast, as Protocols: over HTTP (`Client`), and in one process (`holdfast.open`).

    async with holdfast.Client("http://127.0.0.1:5050") as hf:
        answer = await hf.ask("hello", "good morning")
        run = await hf.start("hello", "a longer task")
        async for event in run.stream(): ...

`SyncClient` has the same methods without `await`. A list is an iterator that reads its pages as it goes; `limit` is the
number of items, not of a page. What makes something is sent with an idempotency key, so that it is done once however
often the connection breaks. Errors are those of `holdfast.HoldfastError`, by code, wherever the work is done.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar, overload

import msgspec

from holdfast.control.agent_versions import AgentVersionDiff, AgentVersionView
from holdfast.control.agents import AgentView
from holdfast.control.artifacts import ArtifactDetail
from holdfast.control.run_details import EventView, RunContextView
from holdfast.control.threads import RunNode, ThreadDetail
from holdfast.domain.artifact import Artifact, ArtifactType, File
from holdfast.domain.content import Content, Json
from holdfast.domain.errors import RunFailed, Waiting
from holdfast.domain.events import Event, decode_event
from holdfast.domain.interrupt import Interrupt, InterruptStatus
from holdfast.domain.limits import Limits
from holdfast.domain.message import Message
from holdfast.domain.notification import Notification
from holdfast.domain.placement import OnBusy
from holdfast.domain.plan import ThreadTask
from holdfast.domain.run import Mode, Priority, Run, RunStatus
from holdfast.domain.space import Space
from holdfast.domain.step import Step
from holdfast.domain.thread import Thread, ThreadStatus

T = TypeVar("T")
RunInput: TypeAlias = Json
"""A text, or any other JSON value, which becomes one user message; content parts are `{"content": […]}`."""


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a run's log: its number, and its JSON as it is stored."""

    seq: int
    data: bytes

    @property
    def fields(self) -> dict[str, Json]:
        """The event as a dictionary, with the field names of AG-UI."""
        return msgspec.json.decode(self.data)  # type: ignore[no-any-return]

    @property
    def type(self) -> str:
        """The type of the event, such as `TEXT_MESSAGE_CONTENT`."""
        return msgspec.json.decode(self.data, type=_EventType).type

    def decoded(self) -> Event:
        """Return the event as its own type; raise `Invalid` for one that this version does not know."""
        return decode_event(self.data)


class _EventType(msgspec.Struct, frozen=True):
    type: str


class RunHandle(Protocol):
    """One run: follow it, answer it, steer it, and branch from it."""

    @property
    def id(self) -> str:
        """The id of the run."""

    async def get(self) -> Run:
        """Return the run as it is now."""

    async def wait(self, seconds: float | None = None) -> Run:
        """Return the run once it has ended or waits for a person, or as it is after `seconds`."""

    async def result(self) -> Json:
        """Wait for the end, and return the output.

        Raises:
            RunFailed: it failed or was cancelled.
            Waiting: it waits for a person; `details["interrupts"]` has the ids of its open interrupts.

        """

    def stream(self, *, after: int = 0) -> AsyncIterator[RunEvent]:
        """Yield each event after number `after` once, in order, until the run has ended.

        A lost connection is restored, and the stream continues where it was.
        """

    async def cancel(self, reason: str | None = None) -> Run:
        """Cancel the run with its descendants; one that has ended raises `IllegalMove`."""

    async def interrupts(self) -> Sequence[Interrupt]:
        """Return the open questions of the run and of its descendants, newest first."""

    async def respond(self, response: Json, *, interrupt_id: str | None = None, digest: str | None = None) -> Interrupt:
        """Respond to the open interrupt of the run or of a descendant; a second response raises `AlreadyAnswered`.

        `interrupt_id` is needed only if several are open. An approval is `{"decision": "approve"}`.
        """

    async def steer(self, content: Content) -> None:
        """Send a message to an active run, which reads it before its next model call."""

    async def retry(self, *, from_start: bool = False) -> "RunHandle":
        """Start a run that continues this failed or cancelled one after its last step, or from its start."""

    async def fork(
        self, input: RunInput, *, after: int | None = None, agent: str | None = None, model: str | None = None
    ) -> "RunHandle":
        """Start a run on a new branch of the thread: from the end of this run, or after a message before it."""

    async def messages(self, *, limit: int | None = None) -> Sequence[Message]:
        """Return the conversation up to this run, oldest first; with `limit`, its last messages."""

    def events(self, *, types: Sequence[str] = (), after: int = 0) -> AsyncIterator[EventView]:
        """Yield the events that are in the log now, optionally only of some types."""

    def steps(self) -> AsyncIterator[Step]:
        """Yield the model calls and tool calls in order."""

    async def context(self, step: int | None = None) -> RunContextView:
        """Return what was sent to the model, by default in the newest call."""

    def children(self) -> AsyncIterator[Run]:
        """Yield the runs that this one spawned, newest first."""

    def artifacts(self) -> AsyncIterator[Artifact]:
        """Yield the artifacts of the run without their content, newest first."""


class AgentsApi(Protocol):
    """The agents that a space knows: those of the workspace, and its own, which can be changed."""

    def list(self, *, limit: int | None = None) -> AsyncIterator[AgentView]:
        """Yield the usable agents by name."""

    async def get(self, name: str) -> AgentView:
        """Return an agent."""

    async def create(
        self,
        name: str,
        *,
        settings: Mapping[str, Json],
        instructions: str,
        soul: str | None = None,
        scripts: Mapping[str, Json] | None = None,
    ) -> AgentView:
        """Create an agent of the space; `settings` is what `agent.json` would say."""

    async def replace(
        self,
        name: str,
        *,
        settings: Mapping[str, Json],
        instructions: str,
        soul: str | None = None,
        scripts: Mapping[str, Json] | None = None,
    ) -> AgentView:
        """Give an agent of the space another definition."""

    async def update(self, name: str, **changes: Json) -> AgentView:
        """Change `settings`, which are merged, `instructions`, `soul` or `scripts` of an agent of the space."""

    async def delete(self, name: str) -> None:
        """Delete an agent of the space; runs that have begun go on."""

    def versions(self, name: str, *, limit: int | None = None) -> AsyncIterator[AgentVersionView]:
        """Yield the published versions of an agent, the newest first."""

    async def diff(self, name: str, before: str, after: str) -> AgentVersionDiff:
        """Return the difference between two versions, each named by its digest or the first 8 characters of it."""

    async def activate(self, name: str, digest: str) -> AgentVersionView:
        """Give new runs a published version of an agent, until it is edited."""


class RunsApi(Protocol):
    """The runs of a space."""

    def list(
        self,
        *,
        status: RunStatus | str | None = None,
        agent: str | None = None,
        mode: Mode | str | None = None,
        tag: str | None = None,
        thread: str | None = None,
        root: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Run]:
        """Yield runs, newest first; `root` selects a run with all its descendants.

        `thread` can be combined only with `status`.
        """


class ThreadsApi(Protocol):
    """The threads of a space."""

    def list(
        self,
        *,
        status: ThreadStatus | str | None = None,
        agent: str | None = None,
        title: str | None = None,
        children: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[Thread]:
        """Yield threads, latest run first; `title` is a part of the title."""

    async def create(
        self,
        *,
        id: str | None = None,
        title: str | None = None,
        agent: str | None = None,
        locale: str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Thread:
        """Create a thread."""

    async def get(self, thread_id: str) -> ThreadDetail:
        """Return a thread with its newest runs."""

    async def update(self, thread_id: str, **changes: Json) -> Thread:
        """Change the given fields: `title`, `agent_type`, `locale`, `context_window` or `metadata`."""

    async def archive(self, thread_id: str) -> Thread:
        """Refuse new runs on a thread."""

    async def unarchive(self, thread_id: str) -> Thread:
        """Accept new runs on an archived thread again."""

    async def delete(self, thread_id: str) -> None:
        """Delete a thread; one with an active run raises `RunActive`."""

    async def messages(self, thread_id: str, *, run: str | None = None, limit: int | None = None) -> Sequence[Message]:
        """Return the conversation up to the newest run or `run`, oldest first; with `limit`, its last messages."""

    def tree(self, thread_id: str) -> AsyncIterator[RunNode]:
        """Yield the runs of a thread with the base of each, newest first."""

    async def plan(self, thread_id: str, *, run: str | None = None) -> Sequence[ThreadTask]:
        """Return the plan as of the newest run or `run`."""

    async def export(self, thread_id: str, *, format: str = "markdown", run: str | None = None) -> str:
        """Return the whole conversation as `markdown` or `json`."""

    def artifacts(self, thread_id: str) -> AsyncIterator[Artifact]:
        """Yield the artifacts of a thread without their content."""


class InterruptsApi(Protocol):
    """The questions of runs in a space."""

    def list(
        self, *, status: InterruptStatus | str = InterruptStatus.OPEN, limit: int | None = None
    ) -> AsyncIterator[Interrupt]:
        """Yield the interrupts with a status, by default the open ones, newest first."""


class ArtifactsApi(Protocol):
    """The artifacts of a space."""

    def list(self, *, limit: int | None = None) -> AsyncIterator[Artifact]:
        """Yield all versions of all artifacts without their content, newest first."""

    async def get(self, artifact_id: str, *, version: int | None = None) -> ArtifactDetail:
        """Return one version with its content, and all versions without."""

    async def create(
        self,
        run_id: str,
        *,
        type: ArtifactType | str,
        title: str,
        content: str | None = None,
        file_id: str | None = None,
        id: str | None = None,
        media_type: str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Artifact:
        """Create an artifact of a run; with the `id` of an existing one, its next version."""


class FilesApi(Protocol):
    """The files of a space."""

    def list(self, *, limit: int | None = None) -> AsyncIterator[File]:
        """Yield files, newest first."""

    async def upload(self, name: str, content: bytes, *, media_type: str = "application/octet-stream") -> File:
        """Store a file."""

    async def get(self, file_id: str) -> File:
        """Return the name, size, media type and digest of a file."""

    async def content(self, file_id: str) -> bytes:
        """Return the bytes of a file."""

    async def delete(self, file_id: str) -> None:
        """Delete a file; one that an artifact uses raises `InUse`."""


class NotificationsApi(Protocol):
    """The notifications of a space."""

    def list(self, *, limit: int | None = None) -> AsyncIterator[Notification]:
        """Yield notifications, newest first."""

    async def unread(self) -> int:
        """Return how many are unread."""

    async def mark_read(self, *, number: int | None = None, through: int | None = None) -> int:
        """Mark one, all up to `through`, or all as read; return how many remain unread."""

    def follow(
        self, *, after: int | None = None, on_connection: Callable[[str], None] | None = None
    ) -> AsyncIterator[Notification]:
        """Yield each notification after number `after`, or from now on, once, without end.

        `on_connection` gets a message when the connection is lost and restored.
        """


class SpacesApi(Protocol):
    """The spaces of the workspace."""

    def list(self, *, limit: int | None = None) -> AsyncIterator[Space]:
        """Yield the accessible spaces, oldest first."""

    async def create(
        self, space_id: str, *, name: str | None = None, metadata: Mapping[str, Json] | None = None
    ) -> Space:
        """Create a space."""

    async def get(self, space_id: str) -> Space:
        """Return a space."""

    async def update(self, space_id: str, **changes: Json) -> Space:
        """Change the `name` or `metadata`."""

    async def delete(self, space_id: str) -> None:
        """Delete a space with everything in it."""


class HoldfastApi(Protocol):
    """Agents that work durably: ask one, start a run, and read everything that they did."""

    @property
    def agents(self) -> AgentsApi:
        """The agents of the workspace."""

    @property
    def threads(self) -> ThreadsApi:
        """The threads of the space."""

    @property
    def runs(self) -> RunsApi:
        """The runs of the space."""

    @property
    def interrupts(self) -> InterruptsApi:
        """The questions of runs."""

    @property
    def artifacts(self) -> ArtifactsApi:
        """The artifacts of the space."""

    @property
    def files(self) -> FilesApi:
        """The files of the space."""

    @property
    def notifications(self) -> NotificationsApi:
        """The notifications of the space."""

    @property
    def spaces(self) -> SpacesApi:
        """The spaces of the workspace."""

    def run(self, run_id: str) -> RunHandle:
        """Return a handle of an existing run; nothing is read yet."""

    def feed(self, *, on_connection: Callable[[str], None] | None = None) -> AsyncIterator[Json]:
        """Yield a hint `{run_id, thread_id, status, last_event_seq}` when a run of the space changes, without end.

        `on_connection` gets a message when the connection is lost and restored.
        """

    @overload
    async def ask(
        self, agent: str | None, input: RunInput, *, thread: str | None = None, model: str | None = None
    ) -> Json: ...

    @overload
    async def ask(
        self,
        agent: str | None,
        input: RunInput,
        *,
        returns: type[T],
        thread: str | None = None,
        model: str | None = None,
    ) -> T: ...

    async def ask(
        self,
        agent: str | None,
        input: RunInput,
        *,
        returns: type[T] | None = None,
        thread: str | None = None,
        model: str | None = None,
    ) -> T | Json:
        """Run an agent and return its output, by default on a new thread.

        With `returns` (a type of msgspec or pydantic, a dataclass or a TypedDict) the output is of that type: the model
        is told its JSON Schema, and an answer that never matches fails the run.

        Raises:
            RunFailed: the run failed or was cancelled.
            Waiting: the run waits for a person, and goes on once it is answered.

        """

    async def start(
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
    ) -> RunHandle:
        """Start a run and return its handle once it is durable; without a `thread`, on a new one.

        Without an agent it is that of the thread, or the default agent of the workspace. `title` is that of a new
        thread. With an `output_schema`, a JSON Schema, the output is a value that matches it.
        """


def output_of(run: Run, *, interrupts: Sequence[Interrupt] = ()) -> Json:
    """Return the output of a run that was waited for; raise `RunFailed` or `Waiting` if it did not complete."""
    match run.status:
        case RunStatus.COMPLETED:
            return run.output
        case RunStatus.FAILED | RunStatus.CANCELLED:
            reason = f": {run.error.message} [{run.error.code}]" if run.error is not None else ""
            raise RunFailed(f"run `{run.id}` {run.status}{reason}", run_id=run.id, status=str(run.status))
        case _:
            message = f"run `{run.id}` waits for a person: respond to it, and it goes on"
            raise Waiting(message, run_id=run.id, interrupts=[each.id for each in interrupts])
