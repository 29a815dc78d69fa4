"""Routes for threads: create, list, and change them; read, browse, and export their conversations."""

from collections.abc import Iterator
from typing import Annotated, Literal, assert_never

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from holdfast.api.bodies import ThreadBody, ThreadChanges
from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey, keyed_request, keyed_response
from holdfast.api.parameters import (
    ID_PATTERN,
    ChildrenQuery,
    Cursor,
    IdQuery,
    Limit,
    PortDependency,
    SequenceQuery,
    parse_run_id,
    space_paths,
)
from holdfast.control.threads import (
    Comparison,
    ConversationControl,
    History,
    ListedThread,
    RunNode,
    ThreadControl,
    ThreadDetail,
    ThreadExport,
)
from holdfast.domain.content import AudioPart, DocumentPart, ImagePart, Part, TextPart, VideoPart
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import MessageId, RunId, SpaceId, ThreadId
from holdfast.domain.message import Message
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.task_ids import run_id_of
from holdfast.domain.thread import Thread, ThreadFilter, ThreadStatus
from holdfast.ports.log import Messages

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
    children: ChildrenQuery = False,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[ListedThread]:
    """Return threads with their latest run, latest run first; deleted ones only with `status=deleted`.

    `title` matches any part of the title, ignoring case. Threads of sub-agents are left out unless `children=true`.
    """
    where = ThreadFilter(status=status, agent_type=agent_type, title=title, children=children)
    return await threads.page(space_id, where=where, limit=limit, cursor=cursor)


@post(_ALL, summary="Create a thread", tags=_TAGS, opt={"headers": {"201": REPLAYED_HEADER}})
async def create_thread(
    threads: NamedDependency[ThreadControl],
    data: JSONBody[ThreadBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[Thread]:
    """Create a thread. Its agent must exist."""
    request = keyed_request("create_thread", key, [data])
    return keyed_response(await threads.create(space_id, data.new_thread(), agent=data.agent_type, request=request))


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
    """Change the given fields."""
    return await threads.update(space_id, thread_id, data.patch())


@delete(_ONE, summary="Delete a thread", tags=_TAGS)
async def delete_thread(
    threads: NamedDependency[ThreadControl], thread_id: FromPath[ThreadId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> None:
    """Delete a thread: it leaves all lists and takes no new run, but can be read. One with an active run is refused."""
    await threads.delete(space_id, thread_id)


@post(space_paths("/threads/{thread_id:str}/archive"), summary="Archive a thread", tags=_TAGS, status_code=200)
async def archive_thread(
    threads: NamedDependency[ThreadControl], thread_id: FromPath[ThreadId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Thread:
    """Refuse new runs on a thread; active runs continue."""
    return await threads.archive(space_id, thread_id)


@post(space_paths("/threads/{thread_id:str}/unarchive"), summary="Unarchive a thread", tags=_TAGS, status_code=200)
async def unarchive_thread(
    threads: NamedDependency[ThreadControl], thread_id: FromPath[ThreadId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Thread:
    """Accept new runs on an archived thread again."""
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
    before_sequence: SequenceQuery = None,
    after_sequence: SequenceQuery = None,
    around: SequenceQuery = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Message]:
    """Return the last messages as of the newest run or `run_id`, oldest first; the next page holds earlier ones.

    `before_sequence`, `after_sequence` and `around` begin elsewhere; with `after_sequence`, `next_cursor` is the
    sequence to go on after. Input of a run that has not begun has no sequence, and is never split over two pages.
    """
    run = parse_run_id(run_id)
    given = {"cursor": cursor, "before_sequence": before_sequence, "after_sequence": after_sequence, "around": around}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise Invalid(f"`{named[0]}` and `{named[1]}` cannot be combined: give one of them", field=named[1])
    if after_sequence is not None:
        return await conversations.messages_after(space_id, thread_id, after_sequence, run=run, limit=limit)
    if around is not None:
        return await conversations.messages_around(space_id, thread_id, around, run=run, limit=limit)
    if before_sequence is not None:
        cursor = str(before_sequence)
    return await conversations.messages(space_id, thread_id, run=run, limit=limit, cursor=cursor)


@get(space_paths("/threads/{thread_id:str}/messages/{message_id:str}"), summary="Read a message", tags=_TAGS)
async def read_message(
    conversations: NamedDependency[ConversationControl],
    thread_id: FromPath[ThreadId],
    message_id: FromPath[MessageId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    run_id: IdQuery = None,
) -> Message:
    """Return a message of a thread, on the branch of `run_id`, or else the newest one with that id."""
    return await conversations.message(space_id, thread_id, message_id, run=parse_run_id(run_id))


@get(space_paths("/threads/{thread_id:str}/compare"), summary="Compare two branches", tags=_TAGS)
async def compare_branches(
    conversations: NamedDependency[ConversationControl],
    thread_id: FromPath[ThreadId],
    a: Annotated[str, QueryParameter(pattern=ID_PATTERN, description="The last run of one branch.")],
    b: Annotated[str, QueryParameter(pattern=ID_PATTERN, description="The last run of the other branch.")],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
) -> Comparison:
    """Return two branches from their last common message on: messages, steps, usage and time of each."""
    return await conversations.compare(space_id, thread_id, run_id_of(a), run_id_of(b), limit=limit)


@get(
    space_paths("/threads/{thread_id:str}/messages/{message_id:str}/revisions"),
    summary="List the revisions of a message",
    tags=_TAGS,
)
async def list_revisions(
    message_store: PortDependency[Messages],
    thread_id: FromPath[ThreadId],
    message_id: FromPath[MessageId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Message]:
    """Return all versions of a message, on any branch, oldest first; `run_id` of each leads to its branch."""
    return await message_store.revisions(space_id, thread_id, message_id, limit=limit, cursor=cursor)


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
    """Return the last messages of a run and of all its bases, oldest first."""
    return await conversations.messages(space_id, thread_id, run=run_id, limit=limit, cursor=cursor)


@get(space_paths("/threads/{thread_id:str}/history"), summary="Read a thread's conversation with its runs", tags=_TAGS)
async def read_history(
    conversations: NamedDependency[ConversationControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> History:
    """Return the newest conversation, its runs, and the latest live, failed and completed run."""
    return await conversations.history(space_id, thread_id, limit=limit, cursor=cursor)


@get(space_paths("/threads/{thread_id:str}/tree"), summary="Read the tree of a thread's runs", tags=_TAGS)
async def read_tree(
    conversations: NamedDependency[ConversationControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[RunNode]:
    """Return the runs of a thread with the base of each, newest first."""
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
    """Return all messages up to the newest run or `run_id`, as Markdown or JSON."""
    export = await conversations.export(space_id, thread_id, run=parse_run_id(run_id))
    if format == "json":
        return Response(msgspec.json.encode(export), media_type="application/json")
    return Response(conversation_markdown(export).encode(), media_type="text/markdown")


CONVERSATION_ROUTES = [
    list_messages,
    read_message,
    list_revisions,
    list_run_messages,
    read_history,
    read_tree,
    compare_branches,
    export_thread,
]


def conversation_markdown(export: ThreadExport) -> str:
    """Return a conversation as Markdown, with a heading for each message."""
    thread = export.thread
    title = " ".join((thread.title or thread.id).split())
    head = [f"# {title}", "", f"- thread `{thread.id}`, agent `{thread.agent_type}`"]
    if export.run is not None:
        head.append(f"- up to run `{export.run.id}`, {export.run.status}")
    return "\n".join([*head, "", *(line for message in export.messages for line in _message_lines(message))])


def _message_lines(message: Message) -> Iterator[str]:
    yield f"## {message.role} · {message.created_at}"
    yield ""
    content = message.content
    text = content if isinstance(content, str) else "\n\n".join(_part_text(part) for part in content)
    if message.tool_call_id is not None:
        yield from (*_code_block(text), "")
    elif text:
        yield from (text, "")
    for call in message.tool_calls:
        yield f"Calls `{call.name}`:"
        yield ""
        yield from (*_code_block(msgspec.json.format(msgspec.json.encode(call.arguments)).decode()), "")


def _part_text(part: Part) -> str:
    match part:
        case TextPart(text=text):
            return text
        case ImagePart() | AudioPart() | VideoPart() | DocumentPart():
            return f"[{type(part).__name__.removesuffix('Part').lower()}]"
        case _:
            assert_never(part)


def _code_block(text: str) -> list[str]:
    """Return a code block whose fence does not occur in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [fence, text, fence]
