"""`todo_read`: the todo list of the run."""

from typing import Final

from holdfast.domain.plan import Todo
from holdfast.domain.tool import ToolClass
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool
from holdfast.tools.values import read_value, written


class TodoRead(Arguments, frozen=True, kw_only=True):
    """Read your todo list: its items in order, and which of them are done."""


async def _read(call: Call, asked: TodoRead) -> Outcome:
    return Outcome(content=written(read_value(call, "todo", default=Todo())))


SPEC: Final = spec_of(TodoRead, name="todo_read", kind=ToolClass.IDEMPOTENT, read_only=True)
TODO_READ: Final = TypedTool(SPEC, TodoRead, run=_read)
