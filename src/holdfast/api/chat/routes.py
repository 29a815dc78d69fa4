"""The routes of agents, chats, sessions, models and the client socket, and the stream of a chat.

event: session      once
event: delta     …  one for each piece of text
event: done         or `error`, the last event
"""

from typing import Annotated, Any, Final

import msgspec
from litestar import Response, WebSocket, delete, get, post, websocket
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler, WebsocketRouteHandler
from litestar.params import FromPath, JSONBody, QueryParameter

from holdfast.api.chat.bodies import (
    ChatBody,
    ContractAgentList,
    ContractAgentResponse,
    SessionCanceled,
    SessionContext,
    SessionDeleted,
    SessionMessages,
    SessionPage,
    SessionResponse,
)
from holdfast.api.chat.chats import ChatControl, ChatReply
from holdfast.api.chat.client_socket import ClientSocket
from holdfast.api.chat.live_sessions import LiveControl
from holdfast.api.chat.model_calls import ModelCallBody, ModelCallResponse, ModelCalls, ModelCatalog
from holdfast.api.chat.sessions import CHAT_ERRORS, MODEL_ERRORS, SessionControl, SessionNotFound
from holdfast.api.errors import envelope
from holdfast.api.openai.completions import StartedCompletion
from holdfast.api.parameters import Cursor, Limit, prefers_stream
from holdfast.api.routes.runs import AcceptHeader, IdempotencyKey
from holdfast.api.streams.sse import StreamResponse
from holdfast.api.streams.text_stream import TextStream
from holdfast.api.streams.websocket import check_handshake, deny_handshake
from holdfast.api.tasks.error_handlers import error_handlers
from holdfast.control.streams.broadcast import Subscriber
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, NotFound
from holdfast.domain.ids import ThreadId
from holdfast.domain.page import DEFAULT_PAGE_SIZE
from holdfast.domain.task_ids import task_id_of


class ChatStream(TextStream):
    """An ASGI app that sends what an agent says to a message."""

    def __init__(self, chats: ChatControl, started: StartedCompletion, follower: Subscriber) -> None:
        """Send what comes; `follower` begins where the answer does."""
        super().__init__(follower)
        self._chats = chats
        self._begun = started

    def _opening_frame(self) -> bytes:
        run = self._begun.run
        return _event_frame("session", {"sessionId": run.thread_id, "taskId": task_id_of(run.id)})

    def _text_frame(self, text: str) -> bytes:
        return _event_frame("delta", {"text": text})

    async def _final_frames(self) -> bytes:
        reply, question = await self._chats.read_reply(self._begun)
        asked = self._text_frame(self._as_next_paragraph(question)) if question else b""
        return asked + _event_frame("done", reply)

    def _error_frame(self, error: HoldfastError) -> bytes:
        return _event_frame("error", envelope(error))


def _event_frame(name: str, data: Json | msgspec.Struct) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data, enc_hook=str))


_TAGS: Final = ["chat"]
_CHAT_ERROR_HANDLERS: Final = error_handlers(CHAT_ERRORS, not_found=SessionNotFound)

_AgentName = Annotated[str | None, QueryParameter(name="agentName", max_length=128, description="Only of this agent.")]
_Force = Annotated[bool, QueryParameter(description="Cancel what is under way, and delete the session.")]


@get("/agents", summary="List agents for chats and tasks", tags=_TAGS, exception_handlers=_CHAT_ERROR_HANDLERS)
async def list_contract_agents(chats: NamedDependency[ChatControl]) -> ContractAgentList:
    """Return the agents of the workspace by name, and what is wrong with those that cannot be used."""
    found = chats.agents()
    return ContractAgentList(agents=found.items, broken=found.broken)


@get(
    "/agents/{name:str}",
    summary="Read an agent for chats and tasks",
    tags=_TAGS,
    exception_handlers=_CHAT_ERROR_HANDLERS,
)
async def read_contract_agent(chats: NamedDependency[ChatControl], name: FromPath[str]) -> ContractAgentResponse:
    """Return an agent as its files define it now."""
    return ContractAgentResponse(agent=chats.agent(name))


@post(
    "/agents/{name:str}/chat",
    summary="Chat with an agent",
    tags=_TAGS,
    status_code=200,
    exception_handlers=_CHAT_ERROR_HANDLERS,
    opt={"content": {"application/json": ChatReply, "text/event-stream": str}},
)
async def chat(
    chats: NamedDependency[ChatControl],
    name: FromPath[str],
    data: JSONBody[ChatBody],
    key: IdempotencyKey = None,
    accept: AcceptHeader = "*/*",
) -> Response[ChatReply] | StreamResponse:
    """Say something to an agent, and return what it says to that; with `Accept: text/event-stream` as it says it.

    Where the session waits for a person, the message is the answer. Who leaves early stops nothing.
    """
    streams = prefers_stream(accept)
    if streams:
        chats.check_room()
    begun = await chats.start(name, data.message, session=data.session_id, key=key)
    if streams:
        return StreamResponse(ChatStream(chats, begun, await chats.follow(begun)))
    reply = await chats.wait_for_reply(begun)
    return Response(reply, headers={"Idempotency-Replayed": "true"} if begun.replayed else {})


@get("/sessions", summary="List sessions", tags=_TAGS, exception_handlers=_CHAT_ERROR_HANDLERS)
async def list_sessions(
    sessions: NamedDependency[SessionControl],
    agent_name: _AgentName = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> SessionPage:
    """Return sessions, the one with the latest task first."""
    page = await sessions.page(agent=agent_name, limit=limit, cursor=cursor)
    return SessionPage(sessions=page.items, next_cursor=page.next_cursor)


@get("/sessions/{session_id:str}", summary="Read a session", tags=_TAGS, exception_handlers=_CHAT_ERROR_HANDLERS)
async def read_session(sessions: NamedDependency[SessionControl], session_id: FromPath[ThreadId]) -> SessionResponse:
    """Return a session with the newest thing that was done in it."""
    return SessionResponse(session=await sessions.get(session_id))


@delete(
    "/sessions/{session_id:str}",
    summary="Delete a session",
    tags=_TAGS,
    status_code=200,
    exception_handlers=_CHAT_ERROR_HANDLERS,
)
async def delete_session(
    sessions: NamedDependency[SessionControl], session_id: FromPath[ThreadId], force: _Force = False
) -> SessionDeleted:
    """Take a session out of every list; one in which something is under way only with `force`."""
    await sessions.delete(session_id, force=force)
    return SessionDeleted(session_id=session_id)


@get(
    "/sessions/{session_id:str}/messages",
    summary="Read what was said",
    tags=_TAGS,
    exception_handlers=_CHAT_ERROR_HANDLERS,
)
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
    exception_handlers=_CHAT_ERROR_HANDLERS,
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
    exception_handlers=_CHAT_ERROR_HANDLERS,
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

_MODEL_TAGS: Final = ["models"]
_MODEL_ERROR_HANDLERS: Final = error_handlers(MODEL_ERRORS, not_found=NotFound)


@get("/models", summary="List models", tags=_MODEL_TAGS, exception_handlers=_MODEL_ERROR_HANDLERS)
async def list_known_models(model_calls: NamedDependency[ModelCalls]) -> ModelCatalog:
    """Return the providers and which have a key, and the models that are known, with what they read and cost."""
    return ModelCatalog(providers=await model_calls.providers(), models=await model_calls.models())


@post(
    "/completions", summary="Call a model", tags=_MODEL_TAGS, status_code=200, exception_handlers=_MODEL_ERROR_HANDLERS
)
async def call_model(model_calls: NamedDependency[ModelCalls], data: JSONBody[ModelCallBody]) -> ModelCallResponse:
    """Call a model once, without an agent. Nothing of it is kept, and it is not tried again."""
    return await model_calls.call(data.model, data.new_messages(), system=data.system, settings=data.settings())


MODEL_ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (list_known_models, call_model)


@websocket("/ws", middleware=[check_handshake])
async def client_socket(socket: WebSocket[Any, Any, Any], live: NamedDependency[LiveControl]) -> None:
    """Serve one client: it follows tasks and sessions, and offers methods that agents call."""
    try:
        pulse = await live.follow_space()
    except HoldfastError as error:
        await deny_handshake(error, socket.scope, socket.send)
    else:
        await ClientSocket(live, pulse, socket.scope, socket.receive, socket.send).serve()


SOCKETS: Final[tuple[WebsocketRouteHandler, ...]] = (client_socket,)
