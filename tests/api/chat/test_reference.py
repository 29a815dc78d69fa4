"""The reference page says what the code does."""

import ast
import inspect
from typing import Final, get_args

import msgspec

from holdfast.api.chat.bodies import ChatBody
from holdfast.api.chat.model_bodies import ModelCallBody
from holdfast.api.chat.socket.errors import AlreadySubscribed, NotSubscribed
from holdfast.api.chat.socket.following import MOST
from holdfast.api.chat.socket.frames import Said
from holdfast.api.chat.socket.socket import MAX_FRAME
from holdfast.api.chat.socket.wire import SocketClose
from holdfast.api.errors import BadJson, status_of
from holdfast.api.openapi import document
from holdfast.api.routes import chat, models, settings
from holdfast.control.chat.chats import ChatReply
from holdfast.control.chat.errors import CHAT_ERRORS
from holdfast.control.chat.model_calls import ModelAnswer
from holdfast.control.feeds.errors import BadCursor, TooManyStreams
from holdfast.control.live.session import FURTHEST
from holdfast.control.openai.completions import WAIT
from holdfast.control.openai.errors import StillRunning
from holdfast.control.remote_methods.client import MOST_CALLS
from holdfast.control.remote_methods.errors import CALL_ERRORS, CallNotOpen
from holdfast.control.remote_methods.method import MOST_METHODS, MOST_PARAMETERS, Method
from holdfast.control.remote_methods.remote_methods import PATIENCE
from holdfast.control.remote_methods.telling import Telling
from holdfast.control.settings.errors import SETTINGS_ERRORS
from holdfast.control.settings.settings import SettingsView
from holdfast.control.task_contract.errors import TaskNotFound
from holdfast.domain.errors import HoldfastError, Invalid
from holdfast.workspace.settings_file import RESTART_KEYS
from tests.architecture.markdown import rows
from tests.architecture.project import ROOT

REFERENCE: Final = ROOT / "docs" / "reference" / "chat.md"
PAGE: Final = REFERENCE.read_text()
GUIDE: Final = (ROOT / "docs" / "guides" / "remote-methods.md").read_text()


def meaning(thing: type) -> str:
    """Return the first line of what something says of itself."""
    return (thing.__doc__ or "").splitlines()[0]


def test_the_routes_are_there_and_no_others() -> None:
    routes = {
        (f"`{method.upper()} {path}`", operation["summary"])
        for path, item in document([*chat.ROUTES, *models.ROUTES, *settings.ROUTES])["paths"].items()
        for method, operation in item.items()
    }
    written = rows(REFERENCE, "route", "what it does", "answer")
    assert {(route, summary) for route, summary, _ in written} == routes
    assert [answer for *_, answer in written if not answer.startswith("200 ")] == []


def test_every_field_is_there() -> None:
    for field in (*msgspec.structs.fields(ChatBody), *msgspec.structs.fields(ModelCallBody)):
        assert f"\n| `{field.encode_name}` | " in PAGE
    for answer in (ChatReply, ModelAnswer, SettingsView):
        assert f"`{{{', '.join(field.encode_name for field in msgspec.structs.fields(answer))}}}`" in PAGE
    assert f"longer than {WAIT:.0f} seconds" in PAGE


def test_the_errors_are_there_and_no_others() -> None:
    answered: set[type[HoldfastError]] = {*CHAT_ERRORS, *SETTINGS_ERRORS, StillRunning}
    assert sorted(rows(REFERENCE, "code", "status", "meaning")) == sorted(
        [f"`{error.code}`", str(status_of(error(""))), meaning(error)] for error in answered
    )
    unfit = [", ".join(f"`{error.code}`" for error in (Invalid, BadJson)), "The frame does not fit."]
    told = (AlreadySubscribed, NotSubscribed, CallNotOpen, TaskNotFound, BadCursor, TooManyStreams, *CALL_ERRORS)
    assert sorted(rows(REFERENCE, "code", "meaning")) == sorted(
        [unfit, *([f"`{error.code}`", meaning(error)] for error in told)]
    )


def test_what_needs_a_restart_is_there() -> None:
    assert f"begins: {', '.join(f'`{key}`' for key in RESTART_KEYS)}." in PAGE


def test_every_frame_is_there() -> None:
    for frame in get_args(Said):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{frame.__struct_config__.tag}` |"))
        fields = [field.encode_name for field in msgspec.structs.fields(frame) if field.encode_name != "id"]
        assert all(f"`{name}`" in row for name in fields)
    for frame in get_args(Telling):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{frame.__struct_config__.tag}` |"))
        fields = [field.encode_name for field in msgspec.structs.fields(frame) if field.encode_name != "id"]
        assert all(f"`{name}`" in row for name in fields)
    for field in msgspec.structs.fields(Method):
        assert f"\n| `{field.encode_name}` | " in PAGE


def test_every_end_and_every_limit_of_the_socket_is_there() -> None:
    for close, words in zip(SocketClose, _words_after_members(SocketClose), strict=True):
        assert f"| `{close.value}` | `{close.name}` | {words} |" in PAGE
    for limit in (MAX_FRAME, MOST, MOST_METHODS, MOST_PARAMETERS, MOST_CALLS, FURTHEST):
        assert f" {limit:,} " in PAGE or f" {limit:,}," in PAGE or f" {limit:,} |" in PAGE, limit
    assert f"for {PATIENCE:.0f} seconds" in GUIDE


def _words_after_members(enum: type) -> list[str]:
    (definition,) = [node for node in ast.parse(inspect.getsource(enum)).body if isinstance(node, ast.ClassDef)]
    texts = [node.value for node in definition.body[1:] if isinstance(node, ast.Expr)]
    return [str(text.value) for text in texts if isinstance(text, ast.Constant)]
