"""Stored files of messages are sent to the model with their content."""

from base64 import b64encode

from holdfast.agent.context.builder import inline_files
from holdfast.domain.content import DataSource, DocumentPart, FileSource, ImagePart, TextPart, UrlSource
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import FileId
from holdfast.domain.message import NewMessage, Role
from holdfast.ports.runtime import StoredFile

KEPT = {FileId("fil_1"): StoredFile(media_type="image/png", content=b"\x89PNG")}


async def read(file: FileId) -> StoredFile:
    if file not in KEPT:
        raise NotFound(f"there is no file `{file}`")
    return KEPT[file]


def user_message(*parts: TextPart | ImagePart | DocumentPart) -> NewMessage:
    return NewMessage(role=Role.USER, content=list(parts))


async def test_a_stored_file_is_sent_with_its_content() -> None:
    words = TextPart(text="what is it?")
    (message,) = await inline_files([user_message(words, ImagePart(source=FileSource(value="fil_1")))], read)
    data = DataSource(value=b64encode(b"\x89PNG").decode(), mime_type="image/png")
    assert message.content == [words, ImagePart(source=data)]


async def test_the_mime_type_of_the_message_wins() -> None:
    named = DocumentPart(source=FileSource(value="fil_1", mime_type="image/x-own"))
    (message,) = await inline_files([user_message(named)], read)
    assert message.content[0].source.mime_type == "image/x-own"  # type: ignore[union-attr]


async def test_a_deleted_file_is_replaced_by_a_note() -> None:
    (message,) = await inline_files([user_message(ImagePart(source=FileSource(value="fil_2")))], read)
    assert message.content == [TextPart(text="(The file `fil_2` was here; it has been deleted.)")]


async def test_external_files_are_not_changed() -> None:
    messages = [
        NewMessage(role=Role.USER, content="only words"),
        user_message(ImagePart(source=UrlSource(value="https://example.org/a.png"))),
        user_message(DocumentPart(source=FileSource(value="file-1", provider="openai"))),
    ]
    assert await inline_files(messages, read) == messages
