"""What was said on a thread."""

from typing import Literal

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery

from holdfast.api.markdown import as_markdown
from holdfast.api.parameters import Cursor, Identifier, Limit, anywhere, run_named
from holdfast.control.conversations import Conversation, ConversationControl, History, RunNode
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.message import Message
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.space import DEFAULT_SPACE

_TAGS = ["threads"]


@get(anywhere("/threads/{thread_id:str}/messages"), summary="Read a thread's conversation", tags=_TAGS)
async def list_messages(
    conversations: NamedDependency[ConversationControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    run_id: Identifier = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Message]:
    """Return the last messages at the newest run, or at `run_id`, oldest first; the next page is what was said before.

    Input that waits for its run to begin has no sequence and is never parted by a page.
    """
    run = run_named(run_id)
    return await conversations.messages(space_id, thread_id, run=run, limit=limit, cursor=cursor)


@get(anywhere("/threads/{thread_id:str}/runs/{run_id:str}/messages"), summary="Read a run's conversation", tags=_TAGS)
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


@get(anywhere("/threads/{thread_id:str}/history"), summary="Read a thread's conversation with its runs", tags=_TAGS)
async def read_history(
    conversations: NamedDependency[ConversationControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> History:
    """Return the newest conversation, the runs it comes from, and which run is live, failed or completed last."""
    return await conversations.history(space_id, thread_id, limit=limit, cursor=cursor)


@get(anywhere("/threads/{thread_id:str}/tree"), summary="Read the tree of a thread's runs", tags=_TAGS)
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
    anywhere("/threads/{thread_id:str}/export"),
    summary="Export a conversation",
    tags=_TAGS,
    opt={"content": {"application/json": Conversation, "text/markdown": str}},
)
async def export_thread(
    conversations: NamedDependency[ConversationControl],
    thread_id: FromPath[ThreadId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    run_id: Identifier = None,
    format: FromQuery[Literal["markdown", "json"]] = "markdown",
) -> Response[bytes]:
    """Return all that was said up to the newest run, or up to `run_id`, to be kept or read elsewhere."""
    run = run_named(run_id)
    whole = await conversations.whole(space_id, thread_id, run=run)
    if format == "json":
        return Response(msgspec.json.encode(whole), media_type="application/json")
    return Response(as_markdown(whole).encode(), media_type="text/markdown")


ROUTES = [list_messages, list_run_messages, read_history, read_tree, export_thread]
