"""The reference page matches the code."""

import ast
import inspect
from typing import Final, get_args

import msgspec

from holdfast.api.chat import routes as chat
from holdfast.api.chat.bodies import ChatBody
from holdfast.api.chat.chats import ChatReply
from holdfast.api.chat.client_socket import MAX_FRAME_BYTES
from holdfast.api.chat.live_sessions import MAX_TASKS_BEHIND
from holdfast.api.chat.model_calls import ModelCallBody, ModelCallResponse
from holdfast.api.chat.sessions import CHAT_ERRORS
from holdfast.api.chat.socket_frames import ClientFrame, SocketClose
from holdfast.api.chat.subscriptions import MAX_SUBSCRIPTIONS, AlreadySubscribed, NotSubscribed
from holdfast.api.errors import BadJson, status_of
from holdfast.api.openai.completions import MAX_WAIT_SECONDS, StillRunning
from holdfast.api.openapi import openapi_document
from holdfast.api.routes import settings
from holdfast.api.routes.settings import SETTINGS_ERRORS
from holdfast.api.tasks.errors import TaskNotFound
from holdfast.control.errors import BadCursor, TooManyStreams
from holdfast.control.remote_methods import (
    MAX_METHODS,
    MAX_OPEN_CALLS,
    MAX_PARAMETERS_BYTES,
    METHOD_CALL_ERRORS,
    RECONNECT_WAIT_SECONDS,
    CallNotOpen,
    MethodFrame,
    RemoteMethod,
)
from holdfast.control.settings import SettingsView
from holdfast.domain.errors import HoldfastError, Invalid
from holdfast.workspace.settings_file import RESTART_KEYS
from tests.architecture.markdown import rows
from tests.architecture.project import ROOT

REFERENCE: Final = ROOT / "docs" / "reference" / "chat.md"
PAGE: Final = REFERENCE.read_text()
GUIDE: Final = (ROOT / "docs" / "guides" / "remote-methods.md").read_text()


def meaning(error: type) -> str:
    """Return the first line of a docstring."""
    return (error.__doc__ or "").splitlines()[0]


def test_exactly_the_routes_are_documented() -> None:
    routes = {
        (f"`{method.upper()} {path}`", operation["summary"])
        for path, item in openapi_document([*chat.ROUTES, *chat.MODEL_ROUTES, *settings.ROUTES])["paths"].items()
        for method, operation in item.items()
    }
    written = rows(REFERENCE, "route", "what it does", "answer")
    assert {(route, summary) for route, summary, _ in written} == routes
    assert [answer for *_, answer in written if not answer.startswith("200 ")] == []


def test_every_field_is_documented() -> None:
    for field in (*msgspec.structs.fields(ChatBody), *msgspec.structs.fields(ModelCallBody)):
        assert f"\n| `{field.encode_name}` | " in PAGE
    for answer in (ChatReply, ModelCallResponse, SettingsView):
        assert f"`{{{', '.join(field.encode_name for field in msgspec.structs.fields(answer))}}}`" in PAGE
    assert f"longer than {MAX_WAIT_SECONDS:.0f} seconds" in PAGE


def test_exactly_the_errors_are_documented() -> None:
    responses: set[type[HoldfastError]] = {*CHAT_ERRORS, *SETTINGS_ERRORS, StillRunning}
    assert sorted(rows(REFERENCE, "code", "status", "meaning")) == sorted(
        [f"`{error.code}`", str(status_of(error(""))), meaning(error)] for error in responses
    )
    invalid = [", ".join(f"`{error.code}`" for error in (Invalid, BadJson)), "The frame does not fit."]
    frames = (
        AlreadySubscribed,
        NotSubscribed,
        CallNotOpen,
        TaskNotFound,
        BadCursor,
        TooManyStreams,
        *METHOD_CALL_ERRORS,
    )
    assert sorted(rows(REFERENCE, "code", "meaning")) == sorted(
        [invalid, *([f"`{error.code}`", meaning(error)] for error in frames)]
    )


def test_settings_that_need_a_restart_are_documented() -> None:
    assert f"begins: {', '.join(f'`{key}`' for key in RESTART_KEYS)}." in PAGE


def test_every_frame_is_documented() -> None:
    for frame in get_args(ClientFrame):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{frame.__struct_config__.tag}` |"))
        fields = [field.encode_name for field in msgspec.structs.fields(frame) if field.encode_name != "id"]
        assert all(f"`{name}`" in row for name in fields)
    for frame in get_args(MethodFrame):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{frame.__struct_config__.tag}` |"))
        fields = [field.encode_name for field in msgspec.structs.fields(frame) if field.encode_name != "id"]
        assert all(f"`{name}`" in row for name in fields)
    for field in msgspec.structs.fields(RemoteMethod):
        assert f"\n| `{field.encode_name}` | " in PAGE


def test_every_close_code_and_limit_of_the_socket_is_documented() -> None:
    for close, meaning_of_code in zip(SocketClose, _member_docstrings(SocketClose), strict=True):
        assert f"| `{close.value}` | `{close.name}` | {meaning_of_code} |" in PAGE
    for limit in (
        MAX_FRAME_BYTES,
        MAX_SUBSCRIPTIONS,
        MAX_METHODS,
        MAX_PARAMETERS_BYTES,
        MAX_OPEN_CALLS,
        MAX_TASKS_BEHIND,
    ):
        assert f" {limit:,} " in PAGE or f" {limit:,}," in PAGE or f" {limit:,} |" in PAGE, limit
    assert f"for {RECONNECT_WAIT_SECONDS:.0f} seconds" in GUIDE


def _member_docstrings(enum: type) -> list[str]:
    (definition,) = [node for node in ast.parse(inspect.getsource(enum)).body if isinstance(node, ast.ClassDef)]
    texts = [node.value for node in definition.body[1:] if isinstance(node, ast.Expr)]
    return [str(text.value) for text in texts if isinstance(text, ast.Constant)]
