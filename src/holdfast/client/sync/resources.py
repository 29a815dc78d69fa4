# Generated from the async client: run `python -m tests.client.sync_source` to write it.
"""The resources of a `SyncClient`: agents, runs, threads, interrupts, artifacts, files, notifications and spaces."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from holdfast.client.sync.connection import SyncConnection, new_key
from holdfast.client.wire import Outage, path_of, query_of
from holdfast.control.agent_versions import AgentVersionDiff, AgentVersionView
from holdfast.control.agents import AgentView
from holdfast.control.artifacts import ArtifactDetail
from holdfast.control.plans import ThreadTasks
from holdfast.control.spaces import UnreadCount
from holdfast.control.threads import RunNode, ThreadDetail
from holdfast.domain.artifact import Artifact, ArtifactType, File
from holdfast.domain.content import Json
from holdfast.domain.errors import ServerUnreachable, Unavailable
from holdfast.domain.interrupt import Interrupt, InterruptStatus
from holdfast.domain.message import Message
from holdfast.domain.notification import Notification
from holdfast.domain.plan import ThreadTask
from holdfast.domain.run import Mode, Run, RunStatus
from holdfast.domain.space import Space
from holdfast.domain.thread import Thread, ThreadStatus


class SyncRemoteAgents:
    """The agents that a space knows: those of the workspace, and its own, which can be changed."""

    def __init__(self, connection: SyncConnection) -> None:
        self._connection = connection

    def list(self, *, limit: int | None = None) -> Iterator[AgentView]:
        """Yield the usable agents by name."""
        return self._connection.pages("/agents", AgentView, limit=limit)

    def get(self, name: str) -> AgentView:
        """Return an agent."""
        return self._connection.send("GET", path_of("/agents/", name), AgentView)

    def create(
        self,
        name: str,
        *,
        settings: Mapping[str, Json],
        instructions: str,
        soul: str | None = None,
        scripts: Mapping[str, Json] | None = None,
    ) -> AgentView:
        """Create an agent of the space; `settings` is what `agent.json` would say."""
        body = {"name": name, **_definition(settings, instructions, soul, scripts)}
        return self._connection.send("POST", "/agents", AgentView, body=body, key=new_key())

    def replace(
        self,
        name: str,
        *,
        settings: Mapping[str, Json],
        instructions: str,
        soul: str | None = None,
        scripts: Mapping[str, Json] | None = None,
    ) -> AgentView:
        """Give an agent of the space another definition."""
        body = _definition(settings, instructions, soul, scripts)
        return self._connection.send("PUT", path_of("/agents/", name), AgentView, body=body)

    def update(self, name: str, **changes: Json) -> AgentView:
        """Change `settings`, which are merged, `instructions`, `soul` or `scripts` of an agent of the space."""
        return self._connection.send("PATCH", path_of("/agents/", name), AgentView, body=changes)

    def delete(self, name: str) -> None:
        """Delete an agent of the space; runs that have begun go on."""
        self._connection.send("DELETE", path_of("/agents/", name), type(None))

    def versions(self, name: str, *, limit: int | None = None) -> Iterator[AgentVersionView]:
        """Yield the published versions of an agent, the newest first."""
        path = path_of("/agents/", name, "/versions")
        return self._connection.pages(path, AgentVersionView, limit=limit)

    def diff(self, name: str, before: str, after: str) -> AgentVersionDiff:
        """Return the difference between two versions, each named by its digest or the first 8 characters of it."""
        path = path_of("/agents/", name, "/versions/", before, "/diff")
        return self._connection.send("GET", path, AgentVersionDiff, query={"to": after})

    def activate(self, name: str, digest: str) -> AgentVersionView:
        """Give new runs a published version of an agent, until it is edited."""
        path = path_of("/agents/", name, "/versions/", digest, "/activate")
        return self._connection.send("POST", path, AgentVersionView)


class SyncRemoteRuns:
    """The runs of a space."""

    def __init__(self, connection: SyncConnection) -> None:
        self._connection = connection

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
    ) -> Iterator[Run]:
        """Yield runs, newest first; `thread` can be combined only with `status`."""
        path = "/runs" if thread is None else path_of("/threads/", thread, "/runs")
        query = query_of(status=status, agent_type=agent, mode=mode, tag=tag, root_run_id=root)
        return self._connection.pages(path, Run, query=query, limit=limit)


class SyncRemoteThreads:
    """The threads of a space."""

    def __init__(self, connection: SyncConnection) -> None:
        self._connection = connection

    def list(
        self,
        *,
        status: ThreadStatus | str | None = None,
        agent: str | None = None,
        title: str | None = None,
        children: bool = False,
        limit: int | None = None,
    ) -> Iterator[Thread]:
        """Yield threads, latest run first; `title` is a part of the title."""
        query = query_of(status=status, agent_type=agent, title=title, children=children)
        return self._connection.pages("/threads", Thread, query=query, limit=limit)

    def create(
        self,
        *,
        id: str | None = None,
        title: str | None = None,
        agent: str | None = None,
        locale: str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Thread:
        """Create a thread."""
        body = query_of(id=id, title=title, agent_type=agent, locale=locale, metadata=metadata)
        return self._connection.send("POST", "/threads", Thread, body=body, key=new_key())

    def get(self, thread_id: str) -> ThreadDetail:
        """Return a thread with its newest runs."""
        return self._connection.send("GET", path_of("/threads/", thread_id), ThreadDetail)

    def update(self, thread_id: str, **changes: Json) -> Thread:
        """Change the given fields: `title`, `agent_type`, `locale`, `context_window` or `metadata`."""
        return self._connection.send("PATCH", path_of("/threads/", thread_id), Thread, body=changes)

    def archive(self, thread_id: str) -> Thread:
        """Refuse new runs on a thread."""
        return self._connection.send("POST", path_of("/threads/", thread_id, "/archive"), Thread)

    def unarchive(self, thread_id: str) -> Thread:
        """Accept new runs on an archived thread again."""
        return self._connection.send("POST", path_of("/threads/", thread_id, "/unarchive"), Thread)

    def delete(self, thread_id: str) -> None:
        """Delete a thread; one with an active run raises `RunActive`."""
        self._connection.send("DELETE", path_of("/threads/", thread_id), type(None))

    def messages(self, thread_id: str, *, run: str | None = None, limit: int | None = None) -> Sequence[Message]:
        """Return the conversation up to the newest run or `run`, oldest first; with `limit`, its last messages."""
        return self._connection.last_messages(path_of("/threads/", thread_id, "/messages"), run=run, limit=limit)

    def tree(self, thread_id: str) -> Iterator[RunNode]:
        """Yield the runs of a thread with the base of each, newest first."""
        return self._connection.pages(path_of("/threads/", thread_id, "/tree"), RunNode)

    def plan(self, thread_id: str, *, run: str | None = None) -> Sequence[ThreadTask]:
        """Return the plan as of the newest run or `run`."""
        path = path_of("/threads/", thread_id, "/tasks")
        return (self._connection.send("GET", path, ThreadTasks, query=query_of(run_id=run))).items

    def export(self, thread_id: str, *, format: str = "markdown", run: str | None = None) -> str:
        """Return the whole conversation as `markdown` or `json`."""
        path = self._connection.path(path_of("/threads/", thread_id, "/export"))
        return (self._connection.request("GET", path, query=query_of(format=format, run_id=run))).decode()

    def artifacts(self, thread_id: str) -> Iterator[Artifact]:
        """Yield the artifacts of a thread without their content."""
        return self._connection.pages(path_of("/threads/", thread_id, "/artifacts"), Artifact)


class SyncRemoteInterrupts:
    """The questions of runs in a space."""

    def __init__(self, connection: SyncConnection) -> None:
        self._connection = connection

    def list(
        self, *, status: InterruptStatus | str = InterruptStatus.OPEN, limit: int | None = None
    ) -> Iterator[Interrupt]:
        """Yield the interrupts with a status, by default the open ones, newest first."""
        return self._connection.pages("/interrupts", Interrupt, query=query_of(status=status), limit=limit)


class SyncRemoteArtifacts:
    """The artifacts of a space."""

    def __init__(self, connection: SyncConnection) -> None:
        self._connection = connection

    def list(self, *, limit: int | None = None) -> Iterator[Artifact]:
        """Yield all versions of all artifacts without their content, newest first."""
        return self._connection.pages("/artifacts", Artifact, limit=limit)

    def get(self, artifact_id: str, *, version: int | None = None) -> ArtifactDetail:
        """Return one version with its content, and all versions without."""
        path = path_of("/artifacts/", artifact_id)
        return self._connection.send("GET", path, ArtifactDetail, query=query_of(version=version))

    def create(
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
        body = query_of(
            type=type, title=title, content=content, file_id=file_id, id=id, media_type=media_type, metadata=metadata
        )
        path = path_of("/runs/", run_id, "/artifacts")
        return self._connection.send("POST", path, Artifact, body=body, key=new_key())


class SyncRemoteFiles:
    """The files of a space."""

    def __init__(self, connection: SyncConnection) -> None:
        self._connection = connection

    def list(self, *, limit: int | None = None) -> Iterator[File]:
        """Yield files, newest first."""
        return self._connection.pages("/files", File, limit=limit)

    def upload(self, name: str, content: bytes, *, media_type: str = "application/octet-stream") -> File:
        """Store a file."""
        path = self._connection.path("/files")
        sent = self._connection.request(
            "POST", path, query={"name": name}, content=content, media_type=media_type, key=new_key()
        )
        return self._connection.decode(sent, File)

    def get(self, file_id: str) -> File:
        """Return the name, size, media type and digest of a file."""
        return self._connection.send("GET", path_of("/files/", file_id), File)

    def content(self, file_id: str) -> bytes:
        """Return the bytes of a file."""
        return self._connection.request("GET", self._connection.path(path_of("/files/", file_id, "/content")))

    def delete(self, file_id: str) -> None:
        """Delete a file; one that an artifact uses raises `InUse`."""
        self._connection.send("DELETE", path_of("/files/", file_id), type(None))


class SyncRemoteNotifications:
    """The notifications of a space."""

    def __init__(self, connection: SyncConnection) -> None:
        self._connection = connection

    def list(self, *, limit: int | None = None) -> Iterator[Notification]:
        """Yield notifications, newest first."""
        return self._connection.pages("/notifications", Notification, limit=limit)

    def unread(self) -> int:
        """Return how many are unread."""
        return (self._connection.send("GET", "/notifications/unread", UnreadCount)).unread

    def mark_read(self, *, number: int | None = None, through: int | None = None) -> int:
        """Mark one, all up to `through`, or all as read; return how many remain unread."""
        body = query_of(number=number, through=through)
        return (self._connection.send("POST", "/notifications/read", UnreadCount, body=body)).unread

    def follow(
        self, *, after: int | None = None, on_connection: Callable[[str], None] | None = None
    ) -> Iterator[Notification]:
        """Yield each notification after number `after`, or from now on, once, without end.

        `on_connection` gets a message when the connection is lost and restored.
        """
        retry_seconds = self._connection.retry_seconds
        outage = Outage(self._connection.url, retry_seconds=retry_seconds, notify=on_connection)
        position = after
        while True:
            try:
                with self._connection.open_stream(self._connection.path("/notifications/sse"), position) as events:
                    outage.restored(position or 0)
                    for event in events:
                        position = event.seq
                        outage.progressed()
                        yield self._connection.decode(event.data, Notification)
                raise ServerUnreachable("it closed the stream")
            except Unavailable as error:
                time.sleep(outage.delay(error))


class SyncRemoteSpaces:
    """The spaces of the workspace."""

    def __init__(self, connection: SyncConnection) -> None:
        self._connection = connection

    def list(self, *, limit: int | None = None) -> Iterator[Space]:
        """Yield the accessible spaces, oldest first."""
        return self._connection.pages("/spaces", Space, limit=limit, in_space=False)

    def create(self, space_id: str, *, name: str | None = None, metadata: Mapping[str, Json] | None = None) -> Space:
        """Create a space."""
        body = query_of(id=space_id, name=name, metadata=metadata)
        return self._connection.send("POST", "/spaces", Space, body=body, key=new_key(), in_space=False)

    def get(self, space_id: str) -> Space:
        """Return a space."""
        return self._connection.send("GET", path_of("/spaces/", space_id), Space, in_space=False)

    def update(self, space_id: str, **changes: Json) -> Space:
        """Change the `name` or `metadata`."""
        return self._connection.send("PATCH", path_of("/spaces/", space_id), Space, body=changes, in_space=False)

    def delete(self, space_id: str) -> None:
        """Delete a space with everything in it."""
        self._connection.send("DELETE", path_of("/spaces/", space_id), type(None), in_space=False)


def _definition(
    settings: Mapping[str, Json], instructions: str, soul: str | None, scripts: Mapping[str, Json] | None
) -> dict[str, Json]:
    return {"settings": dict(settings), "instructions": instructions, "soul": soul, "scripts": dict(scripts or {})}
