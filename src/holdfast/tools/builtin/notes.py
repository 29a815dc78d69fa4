"""The note tools: `todo_read`, `todo_write`, `log_write` and `create_artifact`."""

from mimetypes import MimeTypes
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from holdfast.domain.artifact import (
    MAX_ARTIFACT_CHARS,
    ArtifactType,
    NewArtifact,
    NewFile,
    check_new_artifact,
)
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.events.custom import AgentLogged
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ArtifactId, FileId
from holdfast.domain.plan import MAX_TODO_ITEMS, MAX_TODO_TEXT_CHARS, Todo, TodoItem, checked_todo
from holdfast.domain.tool import ToolClass
from holdfast.domain.validation import check_text
from holdfast.domain.working_path import parse_working_path
from holdfast.ports.runtime import Library
from holdfast.ports.tools import WorkingFolders
from holdfast.tools.content import FIRST_ARTIFACT_VERSION, artifact_created_event
from holdfast.tools.files.permitted_folder import permitted_folder
from holdfast.tools.files.text import MAX_FILE_BYTES
from holdfast.tools.thread_pool import CancelFlag, run_in_thread
from holdfast.tools.tool import ToolContext, ToolResult, encode_value, read_value
from holdfast.tools.typed_tool import ToolArguments, TypedTool, tool_spec


class TodoReadArguments(ToolArguments, frozen=True, kw_only=True):
    """Read your todo list: its items in order, and which of them are done."""


async def _read_todo(call: ToolContext, arguments: TodoReadArguments) -> ToolResult:
    return ToolResult(content=encode_value(read_value(call, "todo", default=Todo())))


_TODO_READ_SPEC: Final = tool_spec(TodoReadArguments, name="todo_read", kind=ToolClass.IDEMPOTENT, read_only=True)
TODO_READ: Final = TypedTool(_TODO_READ_SPEC, TodoReadArguments, run=_read_todo)


class TodoItemArguments(ToolArguments, frozen=True, kw_only=True):
    """An item of the list."""

    text: Annotated[str, Meta(min_length=1, max_length=MAX_TODO_TEXT_CHARS, description="What is to be done.")]
    done: Annotated[bool, Meta(description="Whether it is done.")] = False


class TodoWriteArguments(ToolArguments, frozen=True, kw_only=True):
    """Replace your todo list. Give all items, including those that have not changed."""

    items: Annotated[list[TodoItemArguments], Meta(max_length=MAX_TODO_ITEMS, description="The whole list, in order.")]


async def _write_todo(call: ToolContext, arguments: TodoWriteArguments) -> ToolResult:
    todo = checked_todo(TodoItem(text=item.text, done=item.done) for item in arguments.items)
    counts = {"items": len(todo.items), "done": sum(item.done for item in todo.items)}
    return ToolResult(content=counts, values={"todo": encode_value(todo)})


_TODO_WRITE_SPEC: Final = tool_spec(TodoWriteArguments, name="todo_write", kind=ToolClass.TRANSACTIONAL)
TODO_WRITE: Final = TypedTool(_TODO_WRITE_SPEC, TodoWriteArguments, run=_write_todo)

MAX_LOG_MESSAGE_CHARS: Final = 10_000


class LogWriteArguments(ToolArguments, frozen=True, kw_only=True):
    """Write a line into the log of this run, for people who read it later. The user does not see it as an answer."""

    message: Annotated[str, Meta(min_length=1, max_length=MAX_LOG_MESSAGE_CHARS, description="The line to write.")]


async def _write_log(call: ToolContext, arguments: LogWriteArguments) -> ToolResult:
    message = check_text(arguments.message, field="message", max_chars=MAX_LOG_MESSAGE_CHARS)
    return ToolResult(content={"logged": True}, events=[AgentLogged(message=message)])


_LOG_WRITE_SPEC: Final = tool_spec(LogWriteArguments, name="log_write", kind=ToolClass.TRANSACTIONAL)
LOG_WRITE: Final = TypedTool(_LOG_WRITE_SPEC, LogWriteArguments, run=_write_log)

MAX_ARTIFACT_TITLE_CHARS: Final = 500
_ObjectId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]


class CreateArtifactArguments(ToolArguments, frozen=True, kw_only=True):
    """Keep a result of your work, such as a report, a patch or a piece of code, where people find it later.

    With `artifact_id` it becomes the next version of that artifact, and what you leave out stays as it was.
    """

    type: Annotated[ArtifactType | None, Meta(description="What kind of result it is.")] = None
    title: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_ARTIFACT_TITLE_CHARS)] | None,
        Meta(description="A title to find it by."),
    ] = None
    content: Annotated[
        Annotated[str, Meta(max_length=MAX_ARTIFACT_CHARS)] | None,
        Meta(description="The whole text of it; leave it out if you give a `path` or a `file_id`."),
    ] = None
    path: Annotated[
        Annotated[str, Meta(min_length=1)] | None, Meta(description="A file of your working folder that is the result.")
    ] = None
    file_id: Annotated[
        _ObjectId | None, Meta(description="A stored file that is the result, such as `fil_…` in the result of a tool.")
    ] = None
    metadata: Annotated[dict[str, Json] | None, Meta(description="Facts about it for programs, as JSON.")] = None
    artifact_id: Annotated[_ObjectId | None, Meta(description="An artifact to make a new version of.")] = None


CREATE_ARTIFACT_SPEC: Final = tool_spec(CreateArtifactArguments, name="create_artifact", kind=ToolClass.TRANSACTIONAL)


def create_artifact(library: Library, folders: WorkingFolders | None) -> TypedTool[CreateArtifactArguments]:
    """Return the tool, which finds stored files and earlier versions in `library`, and other files in `folders`."""

    async def create(call: ToolContext, arguments: CreateArtifactArguments) -> ToolResult:
        earlier = None
        if arguments.artifact_id is not None:
            earlier = await library.artifact(call.lease, ArtifactId(arguments.artifact_id))
        kind, title, metadata = arguments.type, arguments.title, arguments.metadata
        if earlier is not None:
            kind, title = kind or earlier.type, title or earlier.title
            metadata = earlier.metadata if metadata is None else metadata
        if kind is None or title is None:
            missing = "type" if kind is None else "title"
            raise Invalid(f"`{missing}` is missing: a new artifact needs one", field=missing)
        sources = (arguments.content, arguments.path, arguments.file_id)
        given = sum(source is not None for source in sources)
        if given > 1 or (given == 0 and earlier is None):
            raise Invalid("an artifact needs one of `content`, `path` and `file_id`: give exactly one", field="content")
        kept = earlier if given == 0 else None
        file_id = None if kept is None else kept.file_id
        stored = read = None
        if arguments.file_id is not None:
            stored = await library.file_info(call.lease, FileId(arguments.file_id))
            file_id = stored.id
        if arguments.path is not None:
            read = await _read_file(folders, call, arguments.path)
        artifact_id = ArtifactId(derived_id("art", key=call.key)) if earlier is None else earlier.id
        new = NewArtifact(
            id=artifact_id,
            type=kind,
            title=title,
            content=arguments.content if kept is None else kept.content,
            file_id=file_id,
            file=read,
            media_type=next((file.media_type for file in (stored, read, kept) if file is not None), None),
            metadata=metadata or {},
        )
        check_new_artifact(new)
        version = FIRST_ARTIFACT_VERSION
        if earlier is not None:  # other calls of the same message may add versions in the same commit
            version = earlier.version + call.pending_artifacts.count(artifact_id) + 1
        size = next((file.size for file in (stored, kept) if file is not None), None)
        return ToolResult(
            content={"artifact_id": artifact_id, "version": version},
            artifacts=[new],
            events=[artifact_created_event(new, version=version, size=len(read.content) if read else size)],
        )

    return TypedTool(CREATE_ARTIFACT_SPEC, CreateArtifactArguments, run=create)


async def _read_file(folders: WorkingFolders | None, call: ToolContext, name: str) -> NewFile:
    """Return a file of the working folder, to store under an id that derives from the key of the call."""
    if folders is None:
        raise Invalid("this worker has no working folders: give the `content` or a `file_id`", field="path")
    path = parse_working_path(name)

    def read(_: CancelFlag) -> bytes:
        with permitted_folder(folders, call) as folder:
            return folder.read(path, max_bytes=MAX_FILE_BYTES).content

    return NewFile(
        id=FileId(derived_id("fil", key=call.key)),
        name=path.rpartition("/")[2],
        content=await run_in_thread(read),
        media_type=_MEDIA_TYPES.guess_type(path)[0] or "application/octet-stream",
        created_by=call.run.created_by,
    )


_MEDIA_TYPES: Final = MimeTypes()
"""The types of the standard library only, so that they do not depend on the machine."""
