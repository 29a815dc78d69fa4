"""The note tools: `todo_read`, `todo_write`, `log_write` and `create_artifact`."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.artifact import MAX_ARTIFACT_CHARS, ArtifactType, NewArtifact, check_new_artifact
from holdfast.domain.events.custom import AgentLogged
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ArtifactId
from holdfast.domain.plan import MAX_TODO_ITEMS, MAX_TODO_TEXT_CHARS, Todo, TodoItem, checked_todo
from holdfast.domain.tool import ToolClass
from holdfast.domain.validation import check_text
from holdfast.tools.content import FIRST_ARTIFACT_VERSION, artifact_created_event
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


class CreateArtifactArguments(ToolArguments, frozen=True, kw_only=True):
    """Keep a result of your work, such as a report, a patch or a piece of code, where people find it later."""

    type: Annotated[ArtifactType, Meta(description="What kind of result it is.")]
    title: Annotated[str, Meta(min_length=1, max_length=MAX_ARTIFACT_TITLE_CHARS, description="A title to find it by.")]
    content: Annotated[str, Meta(max_length=MAX_ARTIFACT_CHARS, description="The whole text of it.")]


async def _create_artifact(call: ToolContext, arguments: CreateArtifactArguments) -> ToolResult:
    artifact_id = ArtifactId(derived_id("art", key=call.key))
    artifact = NewArtifact(id=artifact_id, type=arguments.type, title=arguments.title, content=arguments.content)
    check_new_artifact(artifact)
    return ToolResult(
        content={"artifact_id": artifact_id, "version": FIRST_ARTIFACT_VERSION},
        artifacts=[artifact],
        events=[artifact_created_event(artifact_id, artifact)],
    )


_CREATE_ARTIFACT_SPEC: Final = tool_spec(CreateArtifactArguments, name="create_artifact", kind=ToolClass.TRANSACTIONAL)
CREATE_ARTIFACT: Final = TypedTool(_CREATE_ARTIFACT_SPEC, CreateArtifactArguments, run=_create_artifact)
