"""Agents, chats and sessions, in the style of the tasks contract."""

from typing import Annotated, Final

from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody, QueryParameter

from holdfast.api.chat.bodies import (
    ChatBody,
    ContractAgents,
    OneAgent,
    OneSession,
    SessionCanceled,
    SessionContext,
    SessionDeleted,
    SessionMessages,
    SessionPage,
)
from holdfast.api.chat.stream import ChatStream
from holdfast.api.parameters import Cursor, Limit, prefers_stream
from holdfast.api.routes.runs import Accept, IdempotencyKey
from holdfast.api.streams.sse import StreamResponse
from holdfast.api.task_contract.refusals import refusals
from holdfast.control.chat.chats import ChatControl, ChatReply
from holdfast.control.chat.errors import CHAT_ERRORS, SessionNotFound
from holdfast.control.chat.sessions import SessionControl
from holdfast.domain.ids import ThreadId
from holdfast.domain.page import DEFAULT_PAGE_SIZE

_TAGS: Final = ["chat"]
_REFUSALS: Final = refusals(CHAT_ERRORS, not_found=SessionNotFound)

_AgentName = Annotated[str | None, QueryParameter(name="agentName", max_length=128, description="Only of this agent.")]
_Force = Annotated[bool, QueryParameter(description="Cancel what is under way, and delete the session.")]


@get("/agents", summary="List agents for chats and tasks", tags=_TAGS, exception_handlers=_REFUSALS)
async def list_contract_agents(chats: NamedDependency[ChatControl]) -> ContractAgents:
    """Return the agents of the workspace by name, and what is wrong with those that cannot be used."""
    found = chats.agents()
    return ContractAgents(agents=found.items, broken=found.broken)


@get("/agents/{name:str}", summary="Read an agent for chats and tasks", tags=_TAGS, exception_handlers=_REFUSALS)
async def read_contract_agent(chats: NamedDependency[ChatControl], name: FromPath[str]) -> OneAgent:
    """Return an agent as its files define it now."""
    return OneAgent(agent=chats.agent(name))


@post(
    "/agents/{name:str}/chat",
    summary="Chat with an agent",
    tags=_TAGS,
    status_code=200,
    exception_handlers=_REFUSALS,
    opt={"content": {"application/json": ChatReply, "text/event-stream": str}},
)
async def chat(
    chats: NamedDependency[ChatControl],
    name: FromPath[str],
    data: JSONBody[ChatBody],
    key: IdempotencyKey = None,
    accept: Accept = "*/*",
) -> Response[ChatReply] | StreamResponse:
    """Say something to an agent, and return what it says to that; with `Accept: text/event-stream` as it says it.

    Where the session waits for a person, the message is the answer. Who leaves early stops nothing.
    """
    streams = prefers_stream(accept)
    if streams:
        chats.check_room()
    begun = await chats.say(name, data.message, session=data.session_id, key=key)
    if streams:
        return StreamResponse(ChatStream(chats, begun, await chats.follow(begun)))
    reply = await chats.reply(begun)
    return Response(reply, headers={"Idempotency-Replayed": "true"} if begun.replayed else {})


@get("/sessions", summary="List sessions", tags=_TAGS, exception_handlers=_REFUSALS)
async def list_sessions(
    sessions: NamedDependency[SessionControl],
    agent_name: _AgentName = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> SessionPage:
    """Return sessions, the one with the latest task first."""
    page = await sessions.page(agent=agent_name, limit=limit, cursor=cursor)
    return SessionPage(sessions=page.items, next_cursor=page.next_cursor)


@get("/sessions/{session_id:str}", summary="Read a session", tags=_TAGS, exception_handlers=_REFUSALS)
async def read_session(sessions: NamedDependency[SessionControl], session_id: FromPath[ThreadId]) -> OneSession:
    """Return a session with the newest thing that was done in it."""
    return OneSession(session=await sessions.get(session_id))


@delete(
    "/sessions/{session_id:str}",
    summary="Delete a session",
    tags=_TAGS,
    status_code=200,
    exception_handlers=_REFUSALS,
)
async def delete_session(
    sessions: NamedDependency[SessionControl], session_id: FromPath[ThreadId], force: _Force = False
) -> SessionDeleted:
    """Take a session out of every list; one in which something is under way only with `force`."""
    await sessions.delete(session_id, force=force)
    return SessionDeleted(session_id=session_id)


@get("/sessions/{session_id:str}/messages", summary="Read what was said", tags=_TAGS, exception_handlers=_REFUSALS)
async def list_session_messages(
    sessions: NamedDependency[SessionControl],
    session_id: FromPath[ThreadId],
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> SessionMessages:
    """Return the end of what was said, oldest first; with the cursor, what was said before."""
    page = await sessions.messages(session_id, limit=limit, cursor=cursor)
    return SessionMessages(session_id=session_id, messages=page.items, next_cursor=page.next_cursor)


@get(
    "/sessions/{session_id:str}/context",
    summary="Read a session's context",
    tags=_TAGS,
    exception_handlers=_REFUSALS,
)
async def read_session_context(
    sessions: NamedDependency[SessionControl], session_id: FromPath[ThreadId]
) -> SessionContext:
    """Return what the model was told in the most recent iteration; null before the first."""
    return SessionContext(session_id=session_id, context=await sessions.context(session_id))


@post(
    "/sessions/{session_id:str}/cancel",
    summary="Cancel what is under way",
    tags=_TAGS,
    status_code=200,
    exception_handlers=_REFUSALS,
)
async def cancel_session(sessions: NamedDependency[SessionControl], session_id: FromPath[ThreadId]) -> SessionCanceled:
    """End what is under way in a session, and all that it spawned."""
    return SessionCanceled(session_id=session_id, canceled=await sessions.cancel(session_id))


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (
    list_contract_agents,
    read_contract_agent,
    chat,
    list_sessions,
    read_session,
    delete_session,
    list_session_messages,
    read_session_context,
    cancel_session,
)
