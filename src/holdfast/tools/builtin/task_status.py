"""`task_status`: how a task stands. The control plane runs it, because it alone can read other runs."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.tool import ToolClass
from holdfast.tools.schema import Arguments, spec_of


class TaskStatus(Arguments, frozen=True, kw_only=True):
    """Look at how a task stands that you gave to an agent: its status, and its result once there is one."""

    task_id: Annotated[
        str, Meta(min_length=1, max_length=128, description="The `task_id` that `task_create` gave you.")
    ]


SPEC: Final = spec_of(TaskStatus, name="task_status", kind=ToolClass.IDEMPOTENT, read_only=True)
