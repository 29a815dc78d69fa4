"""Threads."""

from litestar import delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody

from holdfast.api.bodies import ThreadBody, ThreadChanges
from holdfast.api.parameters import Cursor, Limit, anywhere
from holdfast.control.threads import ThreadControl, ThreadDetail
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.thread import Thread, ThreadFilter, ThreadStatus

_TAGS = ["threads"]
_ALL = anywhere("/threads")
_ONE = anywhere("/threads/{thread_id:str}")


@get(_ALL, summary="List threads", tags=_TAGS)
async def list_threads(
    threads: NamedDependency[ThreadControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    status: FromQuery[ThreadStatus | None] = None,
    agent_type: FromQuery[str | None] = None,
    title: FromQuery[str | None] = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Thread]:
    """Return threads, the one with the latest run first; deleted ones only if their status is asked for.

    `title` is a part of the title, whatever its case.
    """
    where = ThreadFilter(status=status, agent_type=agent_type, title=title)
    return await threads.page(space_id, where=where, limit=limit, cursor=cursor)


@post(_ALL, summary="Make a thread", tags=_TAGS)
async def create_thread(
    threads: NamedDependency[ThreadControl], data: JSONBody[ThreadBody], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Thread:
    """Make a thread. Its agent must exist."""
    return await threads.create(space_id, data.new_thread(), agent=data.agent_type)


@get(_ONE, summary="Read a thread", tags=_TAGS)
async def read_thread(
    threads: NamedDependency[ThreadControl], thread_id: FromPath[ThreadId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> ThreadDetail:
    """Return a thread with its newest 50 runs."""
    return await threads.get(space_id, thread_id)


@patch(_ONE, summary="Change a thread", tags=_TAGS)
async def update_thread(
    threads: NamedDependency[ThreadControl],
    thread_id: FromPath[ThreadId],
    data: JSONBody[ThreadChanges],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Thread:
    """Change what is given, and nothing else."""
    return await threads.update(space_id, thread_id, data.patch())


@delete(_ONE, summary="Delete a thread", tags=_TAGS)
async def delete_thread(
    threads: NamedDependency[ThreadControl], thread_id: FromPath[ThreadId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> None:
    """Take a thread out of every list; it can still be read, and takes no run. One with a live run is refused."""
    await threads.delete(space_id, thread_id)


@post(anywhere("/threads/{thread_id:str}/archive"), summary="Archive a thread", tags=_TAGS, status_code=200)
async def archive_thread(
    threads: NamedDependency[ThreadControl], thread_id: FromPath[ThreadId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Thread:
    """Let a thread take no new run; those that are live go on."""
    return await threads.archive(space_id, thread_id)


@post(anywhere("/threads/{thread_id:str}/unarchive"), summary="Unarchive a thread", tags=_TAGS, status_code=200)
async def unarchive_thread(
    threads: NamedDependency[ThreadControl], thread_id: FromPath[ThreadId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Thread:
    """Let an archived thread take runs again."""
    return await threads.unarchive(space_id, thread_id)


ROUTES = [
    list_threads,
    create_thread,
    read_thread,
    update_thread,
    delete_thread,
    archive_thread,
    unarchive_thread,
]
