"""The routes of agents, chats, sessions, models and the client socket, and the stream of a chat.

event: session      once
event: delta     …  one for each piece of text
event: reset     …  the text so far, after a model call was interrupted
event: done         or `error`, the last event
"""

from typing import Annotated, Any, Final

import msgspec
from litestar import Response, WebSocket, delete, get, patch, post, put, websocket
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler, WebsocketRouteHandler
from litestar.params import FromPath, JSONBody, QueryParameter

from holdfast.api.chat.bodies import (
    ChatBody,
    ContractAgentDeleted,
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
from holdfast.api.contract_errors import contract_error_handlers
from holdfast.api.errors import ErrorEnvelope, envelope
from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey, keyed_request, replay_headers
from holdfast.api.openai.completions import StartedCompletion
from holdfast.api.parameters import ChildrenQuery, Cursor, IfMatch, Limit, prefers_stream
from holdfast.api.routes.agents import AgentBody, NewAgentBody, agent_etag, expected_versions
from holdfast.api.routes.runs import AcceptHeader
from holdfast.api.streams.sse import StreamResponse
from holdfast.api.streams.text_stream import TextStream
from holdfast.api.streams.websocket import check_handshake, deny_handshake
from holdfast.api.tasks.errors import AgentNotFound
from holdfast.control.streams.broadcast import Subscriber
from holdfast.domain.agent_version import AgentPatch
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, NotFound
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.page import DEFAULT_PAGE_SIZE
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.task_ids import task_id_of


class ChatStream(TextStream):
    """An ASGI app that sends the reply to a message as text deltas."""

    def __init__(self, chats: ChatControl, started: StartedCompletion, subscriber: Subscriber) -> None:
        """Send the text of a reply; `subscriber` starts where the reply starts."""
        super().__init__(subscriber)
        self._chats = chats
        self._started = started

    def _opening_frame(self) -> bytes:
        run = self._started.run
        return _event_frame("session", {"sessionId": run.thread_id, "taskId": task_id_of(run.id)})

    def _text_frame(self, text: str) -> bytes:
        return _event_frame("delta", {"text": text})

    def _reset_frame(self, text: str) -> bytes:
        return _event_frame("reset", {"text": text})

    async def _final_frames(self) -> bytes:
        reply, interrupt_text = await self._chats.read_reply(self._started)
        delta = self._text_frame(self._as_next_paragraph(interrupt_text)) if interrupt_text else b""
        return delta + _event_frame("done", reply)

    def _error_frame(self, error: HoldfastError) -> bytes:
        return _event_frame("error", envelope(error))


def _event_frame(name: str, data: Json | msgspec.Struct) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data, enc_hook=str))


_OPTIONS: Final[dict[str, Any]] = {
    "tags": ["chat"],
    "exception_handlers": contract_error_handlers(CHAT_ERRORS, not_found=SessionNotFound),
}

_AgentName = Annotated[str | None, QueryParameter(name="agentName", max_length=128, description="Only of this agent.")]
_Force = Annotated[bool, QueryParameter(description="Cancel the active runs, and delete the session.")]


@get("/agents", summary="List agents for chats and tasks", **_OPTIONS)
async def list_contract_agents(chats: NamedDependency[ChatControl]) -> ContractAgentList:
    """Return the agents of the workspace and of the space by name, and the errors of those that cannot be used."""
    found = await chats.agents.all(chats.space)
    return ContractAgentList(agents=found.items, broken=found.broken)


@get("/agents/{name:str}", summary="Read an agent for chats and tasks", **_OPTIONS)
async def read_contract_agent(
    chats: NamedDependency[ChatControl], name: FromPath[str]
) -> Response[ContractAgentResponse]:
    """Return an agent as it is defined now; its `ETag` is for `If-Match`."""
    agent = await chats.agent(name)
    return Response(ContractAgentResponse(agent=agent), headers=agent_etag(agent))


_EDIT_OPTIONS: Final[dict[str, Any]] = {
    "tags": ["chat"],
    "exception_handlers": contract_error_handlers(CHAT_ERRORS, not_found=AgentNotFound),
}
_ALSO: Final = {"also": {"412": {"application/json": ErrorEnvelope}}}


@post(
    "/agents",
    summary="Create an agent for chats and tasks",
    status_code=200,
    opt={"headers": {"200": REPLAYED_HEADER}},
    **_EDIT_OPTIONS,
)
async def create_contract_agent(
    chats: NamedDependency[ChatControl], data: JSONBody[NewAgentBody], key: IdempotencyKey = None
) -> Response[ContractAgentResponse]:
    """Create an agent of the space, as `POST /api/agents` does."""
    request = keyed_request("create_agent", key, [data])
    done = await chats.agents.create(chats.space, data.name, data.definition(), request=request)
    headers = agent_etag(done.value) | replay_headers(replayed=done.replayed)
    return Response(ContractAgentResponse(agent=done.value), headers=headers)


@put("/agents/{name:str}", summary="Replace an agent for chats and tasks", opt=_ALSO, **_EDIT_OPTIONS)
async def replace_contract_agent(
    chats: NamedDependency[ChatControl], name: FromPath[str], data: JSONBody[AgentBody], if_match: IfMatch = None
) -> Response[ContractAgentResponse]:
    """Give an agent another definition, as `PUT /api/agents/{name}` does."""
    agent = await chats.agents.replace(chats.space, name, data.definition(), expected=expected_versions(if_match))
    return Response(ContractAgentResponse(agent=agent), headers=agent_etag(agent))


@patch("/agents/{name:str}", summary="Change an agent for chats and tasks", opt=_ALSO, **_EDIT_OPTIONS)
async def update_contract_agent(
    chats: NamedDependency[ChatControl], name: FromPath[str], data: JSONBody[AgentPatch], if_match: IfMatch = None
) -> Response[ContractAgentResponse]:
    """Change the definition of an agent, as `PATCH /api/agents/{name}` does."""
    agent = await chats.agents.change(chats.space, name, data, expected=expected_versions(if_match))
    return Response(ContractAgentResponse(agent=agent), headers=agent_etag(agent))


@delete(
    "/agents/{name:str}", summary="Delete an agent for chats and tasks", status_code=200, opt=_ALSO, **_EDIT_OPTIONS
)
async def delete_contract_agent(
    chats: NamedDependency[ChatControl], name: FromPath[str], if_match: IfMatch = None
) -> ContractAgentDeleted:
    """Delete an agent, as `DELETE /api/agents/{name}` does."""
    await chats.agents.delete(chats.space, name, expected=expected_versions(if_match))
    return ContractAgentDeleted(deleted=True, name=name)


@post(
    "/agents/{name:str}/chat",
    summary="Chat with an agent",
    status_code=200,
    opt={
        "content": {"application/json": ChatReply, "text/event-stream": str},
        "headers": {"200": REPLAYED_HEADER},
    },
    **_OPTIONS,
)
async def chat(
    chats: NamedDependency[ChatControl],
    name: FromPath[str],
    data: JSONBody[ChatBody],
    key: IdempotencyKey = None,
    accept: AcceptHeader = "*/*",
) -> Response[ChatReply] | StreamResponse:
    """Send a message to an agent and return its reply; with `Accept: text/event-stream` as a stream.

    If the session waits for a person, the message is the response. The run continues if the client disconnects.
    """
    new = await chats.new_completion(name, data, key=key)
    if prefers_stream(accept):
        started, subscriber = await chats.completions.start_and_subscribe(new)
        return StreamResponse(ChatStream(chats, started, subscriber))
    started = await chats.completions.start(new)
    reply = await chats.wait_for_reply(started)
    return Response(reply, headers=replay_headers(replayed=started.replayed))


@get("/sessions", summary="List sessions", **_OPTIONS)
async def list_sessions(
    sessions: NamedDependency[SessionControl],
    agent_name: _AgentName = None,
    children: ChildrenQuery = False,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> SessionPage:
    """Return sessions, the one with the latest task first; those of sub-agents only with `children=true`."""
    page = await sessions.page(agent=agent_name, children=children, limit=limit, cursor=cursor)
    return SessionPage(sessions=page.items, next_cursor=page.next_cursor)


@get("/sessions/{session_id:str}", summary="Read a session", **_OPTIONS)
async def read_session(sessions: NamedDependency[SessionControl], session_id: FromPath[ThreadId]) -> SessionResponse:
    """Return a session with its newest task."""
    return SessionResponse(session=await sessions.get(session_id))


@delete("/sessions/{session_id:str}", summary="Delete a session", status_code=200, **_OPTIONS)
async def delete_session(
    sessions: NamedDependency[SessionControl], session_id: FromPath[ThreadId], force: _Force = False
) -> SessionDeleted:
    """Remove a session from every list; one with an active run only with `force`."""
    await sessions.delete(session_id, force=force)
    return SessionDeleted(session_id=session_id)


@get("/sessions/{session_id:str}/messages", summary="List the messages of a session", **_OPTIONS)
async def list_session_messages(
    sessions: NamedDependency[SessionControl],
    session_id: FromPath[ThreadId],
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> SessionMessages:
    """Return the last messages, oldest first; with the cursor, the messages before them."""
    page = await sessions.messages(session_id, limit=limit, cursor=cursor)
    return SessionMessages(session_id=session_id, messages=page.items, next_cursor=page.next_cursor)


@get("/sessions/{session_id:str}/context", summary="Read a session's context", **_OPTIONS)
async def read_session_context(
    sessions: NamedDependency[SessionControl], session_id: FromPath[ThreadId]
) -> SessionContext:
    """Return the model context of the most recent iteration; null before the first."""
    return SessionContext(session_id=session_id, context=await sessions.context(session_id))


@post("/sessions/{session_id:str}/cancel", summary="Cancel the active runs of a session", status_code=200, **_OPTIONS)
async def cancel_session(sessions: NamedDependency[SessionControl], session_id: FromPath[ThreadId]) -> SessionCanceled:
    """Cancel the active runs of a session, and all runs that they spawned."""
    return SessionCanceled(session_id=session_id, canceled=await sessions.cancel(session_id))


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (
    list_contract_agents,
    read_contract_agent,
    create_contract_agent,
    replace_contract_agent,
    update_contract_agent,
    delete_contract_agent,
    chat,
    list_sessions,
    read_session,
    delete_session,
    list_session_messages,
    read_session_context,
    cancel_session,
)

_MODEL_OPTIONS: Final[dict[str, Any]] = {
    "tags": ["models"],
    "exception_handlers": contract_error_handlers(MODEL_ERRORS, not_found=NotFound),
}


@get("/models", summary="List models", **_MODEL_OPTIONS)
async def list_known_models(model_calls: NamedDependency[ModelCalls]) -> ModelCatalog:
    """Return the providers with whether a key is set, and the known models with context windows and prices."""
    return await model_calls.catalog()


@post("/completions", summary="Call a model", status_code=200, **_MODEL_OPTIONS)
async def call_model(model_calls: NamedDependency[ModelCalls], data: JSONBody[ModelCallBody]) -> ModelCallResponse:
    """Call a model once, without an agent and without retry. Nothing is stored."""
    return await model_calls.call(data)


MODEL_ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (list_known_models, call_model)


@websocket(["/ws", "/api/spaces/{space_id:str}/ws"], middleware=[check_handshake])
async def client_socket(
    socket: WebSocket[Any, Any, Any], live: NamedDependency[LiveControl], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> None:
    """Serve one client, which subscribes to tasks and sessions of a space and offers methods that agents call."""
    live = live.in_space(space_id)
    try:
        space_updates = await live.streams.subscribe_space(live.space)
    except HoldfastError as error:
        await deny_handshake(error, socket.scope, socket.send)
    else:
        await ClientSocket(live, space_updates, socket.scope, socket.receive, socket.send).serve()


SOCKETS: Final[tuple[WebsocketRouteHandler, ...]] = (client_socket,)
