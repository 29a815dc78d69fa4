"""The reference page says what the code does."""

from typing import Final

import msgspec

from holdfast.api.chat.bodies import ChatBody
from holdfast.api.chat.model_bodies import ModelCallBody
from holdfast.api.errors import status_of
from holdfast.api.openapi import document
from holdfast.api.routes import chat, models
from holdfast.control.chat.chats import ChatReply
from holdfast.control.chat.errors import CHAT_ERRORS
from holdfast.control.chat.model_calls import ModelAnswer
from holdfast.control.openai.completions import WAIT
from holdfast.control.openai.errors import StillRunning
from tests.architecture.project import ROOT

PAGE: Final = (ROOT / "docs" / "reference" / "chat.md").read_text()


def test_every_route_is_there() -> None:
    for path, item in document([*chat.ROUTES, *models.ROUTES])["paths"].items():
        for method, operation in item.items():
            assert f"| `{method.upper()} {path}` | {operation['summary']} | 200 " in PAGE


def test_every_field_is_there() -> None:
    for field in (*msgspec.structs.fields(ChatBody), *msgspec.structs.fields(ModelCallBody)):
        assert f"\n| `{field.encode_name}` | " in PAGE
    for answer in (ChatReply, ModelAnswer):
        assert f"`{{{', '.join(field.encode_name for field in msgspec.structs.fields(answer))}}}`" in PAGE
    assert f"longer than {WAIT:.0f} seconds" in PAGE


def test_every_error_is_there() -> None:
    for error in (*CHAT_ERRORS, StillRunning):
        row = f"| `{error.code}` | {status_of(error(''))} | {(error.__doc__ or '').splitlines()[0]} |"
        assert row in PAGE
