"""Routes for threads: create, list, and change them; read, browse, and export their conversations."""

from collections.abc import Iterator
from typing import Literal, assert_never

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody

from holdfast.api.bodies import ThreadBody, ThreadChanges
from holdfast.api.parameters import Cursor, IdQuery, Limit, parse_run_id, space_paths
from holdfast.control.threads import ConversationControl, History, RunNode, ThreadControl, ThreadDetail, ThreadExport
from holdfast.domain.content import AudioPart, Content, DocumentPart, ImagePart, Part, TextPart, VideoPart
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.message import Message
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.thread import Thread, ThreadFilter, ThreadStatus

_TAGS = ["threads"]
_ALL = space_paths("/threads")
_ONE = space_paths("/threads/{thread_id:str}")


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


@post(space_paths("/threads/{thread_id:str}/archive"), summary="Archive a thread", tags=_TAGS, status_code=200)
async def archive_thread(
    threads: NamedDependency[ThreadControl], thread_id: FromPath[ThreadId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Thread:
    """Let a thread take no new run; those that are live go on."""
    return await threads.archive(space_id, thread_id)


@post(space_paths("/threads/{thread_id:str}/unarchive"), summary="Unarchive a thread", tags=_TAGS, status_code=200)
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


@get(space_paths("/threads/{thread_id:str}/messages"), summary="Read a thread's conversation", tags=_TAGS)
async def list_messages(
    conversations: NamedDependency[ConversationControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    run_id: IdQuery = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Message]:
    """Return the last messages at the newest run, or at `run_id`, oldest first; the next page is what was said before.

    Input that waits for its run to begin has no sequence and is never parted by a page.
    """
    run = parse_run_id(run_id)
    return await conversations.messages(space_id, thread_id, run=run, limit=limit, cursor=cursor)


@get(
    space_paths("/threads/{thread_id:str}/runs/{run_id:str}/messages"), summary="Read a run's conversation", tags=_TAGS
)
async def list_run_messages(
    conversations: NamedDependency[ConversationControl],
    thread_id: FromPath[ThreadId],
    run_id: FromPath[RunId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Message]:
    """Return the last messages of a run and of all that it continues, oldest first."""
    return await conversations.messages(space_id, thread_id, run=run_id, limit=limit, cursor=cursor)


@get(space_paths("/threads/{thread_id:str}/history"), summary="Read a thread's conversation with its runs", tags=_TAGS)
async def read_history(
    conversations: NamedDependency[ConversationControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> History:
    """Return the newest conversation, the runs it comes from, and which run is live, failed or completed last."""
    return await conversations.history(space_id, thread_id, limit=limit, cursor=cursor)


@get(space_paths("/threads/{thread_id:str}/tree"), summary="Read the tree of a thread's runs", tags=_TAGS)
async def read_tree(
    conversations: NamedDependency[ConversationControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[RunNode]:
    """Return the runs of a thread, each with what it continues from, the newest first."""
    return await conversations.tree(space_id, thread_id, limit=limit, cursor=cursor)


@get(
    space_paths("/threads/{thread_id:str}/export"),
    summary="Export a conversation",
    tags=_TAGS,
    opt={"content": {"application/json": ThreadExport, "text/markdown": str}},
)
async def export_thread(
    conversations: NamedDependency[ConversationControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    run_id: IdQuery = None,
    format: FromQuery[Literal["markdown", "json"]] = "markdown",
) -> Response[bytes]:
    """Return all that was said up to the newest run, or up to `run_id`, to be kept or read elsewhere."""
    run = parse_run_id(run_id)
    whole = await conversations.export(space_id, thread_id, run=run)
    if format == "json":
        return Response(msgspec.json.encode(whole), media_type="application/json")
    return Response(conversation_markdown(whole).encode(), media_type="text/markdown")


CONVERSATION_ROUTES = [list_messages, list_run_messages, read_history, read_tree, export_thread]


def conversation_markdown(whole: ThreadExport) -> str:
    """Return a conversation with a heading for each message."""
    thread = whole.thread
    head = [f"# {_single_line(thread.title or thread.id)}", "", f"- thread `{thread.id}`, agent `{thread.agent_type}`"]
    if whole.run is not None:
        head.append(f"- up to run `{whole.run.id}`, {whole.run.status}")
    return "\n".join([*head, "", *(line for message in whole.messages for line in _message_lines(message))])


def _message_lines(message: Message) -> Iterator[str]:
    yield f"## {message.role} · {message.created_at}"
    yield ""
    text = _content_text(message.content)
    if message.tool_call_id is not None:
        yield from (*_code_block(text), "")
    elif text:
        yield from (text, "")
    for call in message.tool_calls:
        yield f"Calls `{call.name}`:"
        yield ""
        yield from (*_code_block(msgspec.json.format(msgspec.json.encode(call.arguments)).decode()), "")


def _content_text(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(_part_text(part) for part in content)


def _part_text(part: Part) -> str:
    match part:
        case TextPart(text=text):
            return text
        case ImagePart() | AudioPart() | VideoPart() | DocumentPart():
            return f"[{type(part).__name__.removesuffix('Part').lower()}]"
        case _:
            assert_never(part)


def _code_block(text: str) -> list[str]:
    """Return a code block whose fence is longer than any in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [fence, text, fence]


def _single_line(text: str) -> str:
    return " ".join(text.split())
