"""`todo_write`: the todo list of the run, written anew."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.plan import MAX_TODO_ITEMS, MAX_TODO_TEXT_CHARS, TodoItem, checked_todo
from holdfast.domain.tool import ToolClass
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool
from holdfast.tools.values import written


class Line(Arguments, frozen=True, kw_only=True):
    """An item of the list."""

    text: Annotated[str, Meta(min_length=1, max_length=MAX_TODO_TEXT_CHARS, description="What is to be done.")]
    done: Annotated[bool, Meta(description="Whether it is done.")] = False


class TodoWrite(Arguments, frozen=True, kw_only=True):
    """Replace your todo list by another one. Give all items, also those that have not changed."""

    items: Annotated[list[Line], Meta(max_length=MAX_TODO_ITEMS, description="The whole list, in order.")]


async def _write(call: Call, asked: TodoWrite) -> Outcome:
    todo = checked_todo(TodoItem(text=line.text, done=line.done) for line in asked.items)
    counts = {"items": len(todo.items), "done": sum(item.done for item in todo.items)}
    return Outcome(content=counts, values={"todo": written(todo)})


SPEC: Final = spec_of(TodoWrite, name="todo_write", kind=ToolClass.TRANSACTIONAL)
TODO_WRITE: Final = TypedTool(SPEC, TodoWrite, run=_write)
