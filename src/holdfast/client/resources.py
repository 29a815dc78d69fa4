"""The resources of a `Client`: agents, runs, threads, interrupts, artifacts, files, notifications and spaces."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from holdfast.client.connection import Connection, new_key
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


class RemoteAgents:
    """The agents that a space knows: those of the workspace, and its own, which can be changed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, *, limit: int | None = None) -> AsyncIterator[AgentView]:
        """Yield the usable agents by name."""
        return self._connection.pages("/agents", AgentView, limit=limit)

    async def get(self, name: str) -> AgentView:
        """Return an agent."""
        return await self._connection.send("GET", path_of("/agents/", name), AgentView)

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
        body = {"name": name, **_definition(settings, instructions, soul, scripts)}
        return await self._connection.send("POST", "/agents", AgentView, body=body, key=new_key())

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
        body = _definition(settings, instructions, soul, scripts)
        return await self._connection.send("PUT", path_of("/agents/", name), AgentView, body=body)

    async def update(self, name: str, **changes: Json) -> AgentView:
        """Change `settings`, which are merged, `instructions`, `soul` or `scripts` of an agent of the space."""
        return await self._connection.send("PATCH", path_of("/agents/", name), AgentView, body=changes)

    async def delete(self, name: str) -> None:
        """Delete an agent of the space; runs that have begun go on."""
        await self._connection.send("DELETE", path_of("/agents/", name), type(None))

    def versions(self, name: str, *, limit: int | None = None) -> AsyncIterator[AgentVersionView]:
        """Yield the published versions of an agent, the newest first."""
        path = path_of("/agents/", name, "/versions")
        return self._connection.pages(path, AgentVersionView, limit=limit)

    async def diff(self, name: str, before: str, after: str) -> AgentVersionDiff:
        """Return the difference between two versions, each named by its digest or the first 8 characters of it."""
        path = path_of("/agents/", name, "/versions/", before, "/diff")
        return await self._connection.send("GET", path, AgentVersionDiff, query={"to": after})

    async def activate(self, name: str, digest: str) -> AgentVersionView:
        """Give new runs a published version of an agent, until it is edited."""
        path = path_of("/agents/", name, "/versions/", digest, "/activate")
        return await self._connection.send("POST", path, AgentVersionView)


class RemoteRuns:
    """The runs of a space."""

    def __init__(self, connection: Connection) -> None:
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
    ) -> AsyncIterator[Run]:
        """Yield runs, newest first; `thread` can be combined only with `status`."""
        path = "/runs" if thread is None else path_of("/threads/", thread, "/runs")
        query = query_of(status=status, agent_type=agent, mode=mode, tag=tag, root_run_id=root)
        return self._connection.pages(path, Run, query=query, limit=limit)


class RemoteThreads:
    """The threads of a space."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

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
        query = query_of(status=status, agent_type=agent, title=title, children=children)
        return self._connection.pages("/threads", Thread, query=query, limit=limit)

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
        body = query_of(id=id, title=title, agent_type=agent, locale=locale, metadata=metadata)
        return await self._connection.send("POST", "/threads", Thread, body=body, key=new_key())

    async def get(self, thread_id: str) -> ThreadDetail:
        """Return a thread with its newest runs."""
        return await self._connection.send("GET", path_of("/threads/", thread_id), ThreadDetail)

    async def update(self, thread_id: str, **changes: Json) -> Thread:
        """Change the given fields: `title`, `agent_type`, `locale`, `context_window` or `metadata`."""
        return await self._connection.send("PATCH", path_of("/threads/", thread_id), Thread, body=changes)

    async def archive(self, thread_id: str) -> Thread:
        """Refuse new runs on a thread."""
        return await self._connection.send("POST", path_of("/threads/", thread_id, "/archive"), Thread)

    async def unarchive(self, thread_id: str) -> Thread:
        """Accept new runs on an archived thread again."""
        return await self._connection.send("POST", path_of("/threads/", thread_id, "/unarchive"), Thread)

    async def delete(self, thread_id: str) -> None:
        """Delete a thread; one with an active run raises `RunActive`."""
        await self._connection.send("DELETE", path_of("/threads/", thread_id), type(None))

    async def messages(self, thread_id: str, *, run: str | None = None, limit: int | None = None) -> Sequence[Message]:
        """Return the conversation up to the newest run or `run`, oldest first; with `limit`, its last messages."""
        return await self._connection.last_messages(path_of("/threads/", thread_id, "/messages"), run=run, limit=limit)

    def tree(self, thread_id: str) -> AsyncIterator[RunNode]:
        """Yield the runs of a thread with the base of each, newest first."""
        return self._connection.pages(path_of("/threads/", thread_id, "/tree"), RunNode)

    async def plan(self, thread_id: str, *, run: str | None = None) -> Sequence[ThreadTask]:
        """Return the plan as of the newest run or `run`."""
        path = path_of("/threads/", thread_id, "/tasks")
        return (await self._connection.send("GET", path, ThreadTasks, query=query_of(run_id=run))).items

    async def export(self, thread_id: str, *, format: str = "markdown", run: str | None = None) -> str:
        """Return the whole conversation as `markdown` or `json`."""
        path = self._connection.path(path_of("/threads/", thread_id, "/export"))
        return (await self._connection.request("GET", path, query=query_of(format=format, run_id=run))).decode()

    def artifacts(self, thread_id: str) -> AsyncIterator[Artifact]:
        """Yield the artifacts of a thread without their content."""
        return self._connection.pages(path_of("/threads/", thread_id, "/artifacts"), Artifact)


class RemoteInterrupts:
    """The questions of runs in a space."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(
        self, *, status: InterruptStatus | str = InterruptStatus.OPEN, limit: int | None = None
    ) -> AsyncIterator[Interrupt]:
        """Yield the interrupts with a status, by default the open ones, newest first."""
        return self._connection.pages("/interrupts", Interrupt, query=query_of(status=status), limit=limit)


class RemoteArtifacts:
    """The artifacts of a space."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, *, limit: int | None = None) -> AsyncIterator[Artifact]:
        """Yield all versions of all artifacts without their content, newest first."""
        return self._connection.pages("/artifacts", Artifact, limit=limit)

    async def get(self, artifact_id: str, *, version: int | None = None) -> ArtifactDetail:
        """Return one version with its content, and all versions without."""
        path = path_of("/artifacts/", artifact_id)
        return await self._connection.send("GET", path, ArtifactDetail, query=query_of(version=version))

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
        body = query_of(
            type=type, title=title, content=content, file_id=file_id, id=id, media_type=media_type, metadata=metadata
        )
        path = path_of("/runs/", run_id, "/artifacts")
        return await self._connection.send("POST", path, Artifact, body=body, key=new_key())


class RemoteFiles:
    """The files of a space."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, *, limit: int | None = None) -> AsyncIterator[File]:
        """Yield files, newest first."""
        return self._connection.pages("/files", File, limit=limit)

    async def upload(self, name: str, content: bytes, *, media_type: str = "application/octet-stream") -> File:
        """Store a file."""
        path = self._connection.path("/files")
        sent = await self._connection.request(
            "POST", path, query={"name": name}, content=content, media_type=media_type, key=new_key()
        )
        return self._connection.decode(sent, File)

    async def get(self, file_id: str) -> File:
        """Return the name, size, media type and digest of a file."""
        return await self._connection.send("GET", path_of("/files/", file_id), File)

    async def content(self, file_id: str) -> bytes:
        """Return the bytes of a file."""
        return await self._connection.request("GET", self._connection.path(path_of("/files/", file_id, "/content")))

    async def delete(self, file_id: str) -> None:
        """Delete a file; one that an artifact uses raises `InUse`."""
        await self._connection.send("DELETE", path_of("/files/", file_id), type(None))


class RemoteNotifications:
    """The notifications of a space."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, *, limit: int | None = None) -> AsyncIterator[Notification]:
        """Yield notifications, newest first."""
        return self._connection.pages("/notifications", Notification, limit=limit)

    async def unread(self) -> int:
        """Return how many are unread."""
        return (await self._connection.send("GET", "/notifications/unread", UnreadCount)).unread

    async def mark_read(self, *, number: int | None = None, through: int | None = None) -> int:
        """Mark one, all up to `through`, or all as read; return how many remain unread."""
        body = query_of(number=number, through=through)
        return (await self._connection.send("POST", "/notifications/read", UnreadCount, body=body)).unread

    async def follow(
        self, *, after: int | None = None, on_connection: Callable[[str], None] | None = None
    ) -> AsyncIterator[Notification]:
        """Yield each notification after number `after`, or from now on, once, without end.

        `on_connection` gets a message when the connection is lost and restored.
        """
        retry_seconds = self._connection.retry_seconds
        outage = Outage(self._connection.url, retry_seconds=retry_seconds, notify=on_connection)
        position = after
        while True:
            try:
                async with self._connection.open_stream(
                    self._connection.path("/notifications/sse"), position
                ) as events:
                    outage.restored(position or 0)
                    async for event in events:
                        position = event.seq
                        outage.progressed()
                        yield self._connection.decode(event.data, Notification)
                raise ServerUnreachable("it closed the stream")
            except Unavailable as error:
                await asyncio.sleep(outage.delay(error))


class RemoteSpaces:
    """The spaces of the workspace."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, *, limit: int | None = None) -> AsyncIterator[Space]:
        """Yield the accessible spaces, oldest first."""
        return self._connection.pages("/spaces", Space, limit=limit, in_space=False)

    async def create(
        self, space_id: str, *, name: str | None = None, metadata: Mapping[str, Json] | None = None
    ) -> Space:
        """Create a space."""
        body = query_of(id=space_id, name=name, metadata=metadata)
        return await self._connection.send("POST", "/spaces", Space, body=body, key=new_key(), in_space=False)

    async def get(self, space_id: str) -> Space:
        """Return a space."""
        return await self._connection.send("GET", path_of("/spaces/", space_id), Space, in_space=False)

    async def update(self, space_id: str, **changes: Json) -> Space:
        """Change the `name` or `metadata`."""
        return await self._connection.send("PATCH", path_of("/spaces/", space_id), Space, body=changes, in_space=False)

    async def delete(self, space_id: str) -> None:
        """Delete a space with everything in it."""
        await self._connection.send("DELETE", path_of("/spaces/", space_id), type(None), in_space=False)


def _definition(
    settings: Mapping[str, Json], instructions: str, soul: str | None, scripts: Mapping[str, Json] | None
) -> dict[str, Json]:
    return {"settings": dict(settings), "instructions": instructions, "soul": soul, "scripts": dict(scripts or {})}
