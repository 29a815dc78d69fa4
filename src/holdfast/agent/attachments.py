"""Files of the space that messages name, as a model can read them: it has no way to our storage."""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.domain.content import Content, DataSource, Part, TextPart, stored_file, stored_file_ids
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import FileId
from holdfast.domain.message import Message, NewMessage
from holdfast.ports.runtime import StoredFile

Said: TypeAlias = Message | NewMessage
ReadFile: TypeAlias = Callable[[FileId], Awaitable[StoredFile]]


async def with_files(messages: Sequence[Said], read: ReadFile) -> Sequence[Said]:
    """Return messages with the bytes of our files in place of their names; most messages name none."""
    if not any(stored_file_ids(message.content) for message in messages):
        return messages
    return [replace(message, content=await _filled(message.content, read)) for message in messages]


async def _filled(content: Content, read: ReadFile) -> Content:
    return content if isinstance(content, str) else [await _with_bytes(part, read) for part in content]


async def _with_bytes(part: Part, read: ReadFile) -> Part:
    source = stored_file(part)
    if source is None:
        return part
    try:
        file = await read(FileId(source.value))
    except NotFound:
        return TextPart(text=f"(The file `{source.value}` was here; it has been deleted.)")
    mime_type = file.media_type if source.mime_type is UNSET else source.mime_type
    return replace(part, source=DataSource(value=b64encode(file.content).decode(), mime_type=mime_type))
