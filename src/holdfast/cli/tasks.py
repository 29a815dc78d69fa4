"""`holdfast task …`: the tasks contract, from creating a task to its result."""

import uuid
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import msgspec
import typer

from holdfast.cli.arguments import AgentArgument, AgentFilter, InputArgument, LimitOption, TaskArgument, read_input
from holdfast.cli.command import command, connect, new_group, options, server_options
from holdfast.cli.output import print_json, print_message
from holdfast.cli.questions import answer_lines
from holdfast.cli.tables import input_line, one_line, print_done, print_list, print_object, short_time
from holdfast.domain.content import Json
from holdfast.domain.run import Priority
from holdfast.domain.task_ids import run_id_of

if TYPE_CHECKING:
    from holdfast.client.sync.client import SyncClient

MAX_PAGE: Final = 100
task: Final = new_group("Create, list, answer and end tasks.")


def _call(hf: "SyncClient", method: str, path: str, *, body: Json = msgspec.UNSET, **query: Json) -> Any:
    """Send a request to the tasks contract, whose routes are not below `/api`."""
    key = uuid.uuid4().hex if method == "POST" else None
    given = {name: value for name, value in query.items() if value is not None}
    answered = hf.request(method, path, query=given, body=body, key=key)
    return msgspec.json.decode(answered or b"null")


def _path(task_id: str, suffix: str = "") -> str:
    return f"/tasks/{quote(task_id, safe='')}{suffix}"


@command(task)
def create(
    agent: AgentArgument,
    input: InputArgument = None,
    priority: Annotated[Priority, typer.Option(help="How urgent it is.")] = Priority.NORMAL,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="A tag; may be repeated.")] = None,
    max_iterations: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=1, help="The maximum number of model calls.")
    ] = None,
    token_budget: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=1, help="The maximum number of tokens.")
    ] = None,
) -> None:
    """Create a task for AGENT and print its id; it goes on without this command."""
    body: dict[str, Json] = {"input": read_input(input), "priority": priority, "tags": tag or []}
    body |= {"maxIterations": max_iterations, "tokenBudget": token_budget}
    with connect() as hf:
        created = _call(hf, "POST", f"/agents/{quote(agent, safe='')}/task", body=body)
    if options().as_json:
        print_json(created)
    else:
        typer.echo(created["taskId"])
        print_message(f"see it: holdfast task show {created['taskId']}{server_options()}")


@command(task, "list")
def list_tasks(
    status: Annotated[str | None, typer.Option(metavar="STATUS", help="Only with this status.")] = None,
    agent: AgentFilter = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Only with this tag.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List tasks, newest first."""
    found: list[Any] = []
    with connect() as hf:
        cursor = None
        while len(found) < limit:
            size = min(MAX_PAGE, limit - len(found))
            page = _call(hf, "GET", "/tasks", status=status, agentName=agent, tag=tag, limit=size, cursor=cursor)
            found += page["tasks"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
    print_list(
        found,
        [
            ("task", lambda task: task["id"]),
            ("status", lambda task: task["status"]),
            ("agent", lambda task: task["agent_name"]),
            ("created", lambda task: short_time(task["created_at"])),
            ("input", lambda task: input_line(task["input"])),
        ],
        empty="no tasks",
    )


@command(task)
def show(task_id: TaskArgument) -> None:
    """Show a task: where it stands, its result, and the command that answers it if it waits."""
    with connect() as hf:
        found = _call(hf, "GET", _path(task_id))["task"]
        questions = list(hf.run(run_id_of(task_id)).interrupts()) if found["status"] == "waiting" else []
    print_object(found, [(name, short_time(value) if name.endswith("_at") else value) for name, value in found.items()])
    for question in [] if options().as_json else questions:
        for line in answer_lines(question, server=server_options()):
            print_message(line)


@command(task)
def events(
    task_id: TaskArgument,
    since: Annotated[int, typer.Option(metavar="NUMBER", min=0, help="Only events after this one.")] = 0,
) -> None:
    """List the events of a task."""
    found: list[Any] = []
    with connect() as hf:
        cursor: int | None = since
        while cursor is not None:
            page = _call(hf, "GET", _path(task_id, "/events"), since=cursor)
            found += page["events"]
            cursor = page["next_cursor"]
    print_list(
        found,
        [
            ("id", lambda event: event["id"]),
            ("created", lambda event: short_time(event["created_at"])),
            ("type", lambda event: event["type"]),
            ("data", lambda event: one_line(event["data"])),
        ],
        empty="no events",
    )


@command(task)
def respond(
    task_id: TaskArgument,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="The answer.")],
) -> None:
    """Answer a task that waits."""
    with connect() as hf:
        answered = _call(hf, "POST", _path(task_id, "/respond"), body={"message": message})
    print_done(answered, f"answered {task_id}")


@command(task)
def cancel(task_id: TaskArgument) -> None:
    """Cancel a task."""
    with connect() as hf:
        ended = _call(hf, "POST", _path(task_id, "/cancel"))
    print_done(ended, f"cancelled {task_id}")


@command(task)
def delete(task_id: TaskArgument) -> None:
    """Delete a task that has ended."""
    with connect() as hf:
        deleted = _call(hf, "DELETE", _path(task_id))
    print_done(deleted, f"deleted {task_id}")
