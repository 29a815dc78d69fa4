"""`holdfast thread …`: read, branch, export and close threads."""

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
import typer

from holdfast.cli.arguments import (
    AgentFilter,
    InputArgument,
    LimitOption,
    ModelOption,
    ThreadArgument,
    complete_agents,
    complete_runs,
    read_input,
)
from holdfast.cli.command import command, connect, new_group, options, run_until_interrupted
from holdfast.cli.output import print_json, print_message
from holdfast.cli.tables import one_line, print_done, print_list, print_object, print_tree, short_time
from holdfast.domain.errors import NotFound
from holdfast.domain.thread import ThreadStatus

if TYPE_CHECKING:
    from holdfast.control.threads import RunNode

thread: Final = new_group("Read, branch, export and close threads.")


@command(thread, "list")
def list_threads(
    status: Annotated[ThreadStatus | None, typer.Option(help="Only with this status.")] = None,
    agent: AgentFilter = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Only with this in the title.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List threads, latest run first."""
    with connect() as hf:
        print_list(
            hf.threads.list(status=status, agent=agent, title=title, limit=limit),
            [
                ("thread", lambda thread: thread.id),
                ("status", lambda thread: thread.status),
                ("agent", lambda thread: thread.agent_type),
                ("last run", lambda thread: short_time(thread.last_run_at)),
                ("title", lambda thread: one_line(thread.title)),
            ],
            empty="no threads",
        )


@command(thread)
def messages(thread_id: ThreadArgument, limit: LimitOption = 50) -> None:
    """Print the last messages of a thread, oldest first."""
    with connect() as hf:
        print_list(
            hf.threads.messages(thread_id, limit=limit),
            [
                ("number", lambda message: message.sequence),
                ("role", lambda message: message.role),
                ("content", lambda message: one_line(message.content or message.tool_calls, 200)),
            ],
            empty="no messages",
        )


@command(thread)
def show(thread_id: ThreadArgument) -> None:
    """Show a thread with its newest runs and its plan."""
    with connect() as hf:
        found = hf.threads.get(thread_id)
        plan = hf.threads.plan(thread_id)
    names = ("id", "title", "status", "agent_type", "locale", "summary", "key_points", "metadata", "created_by")
    fields = [(name, getattr(found, name)) for name in names]
    fields += [(name, short_time(getattr(found, name))) for name in ("created_at", "last_run_at")]
    print_object(found, fields)
    if not options().as_json:
        for item in plan:
            typer.echo(f"plan    [{item.status}] {item.task_id}. {one_line(item.title)}")
        for each in found.runs:
            typer.echo(f"run     {each.id}  {each.status}")


@command(thread)
def tree(thread_id: ThreadArgument) -> None:
    """Show the runs of a thread as the tree that they are: each below the run that it continues."""
    with connect() as hf:
        nodes = list(hf.threads.tree(thread_id))
    if options().as_json:
        print_json(nodes)
    elif not nodes:
        print_message("no runs")
    else:
        print_tree(
            [
                (node.id, node.base_run_id, f"{node.id}  {node.status}  {node.agent_type}{_place(node)}")
                for node in reversed(nodes)
            ]
        )


def _place(node: "RunNode") -> str:
    return "" if node.base_sequence is None else f"  after message {node.base_sequence}"


@command(thread)
def fork(
    thread_id: ThreadArgument,
    input: InputArgument = None,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="RUN_ID", autocompletion=complete_runs, help="The run to branch from; by default the newest."
        ),
    ] = None,
    after: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=0, help="Branch after this message; by default after the run.")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=complete_agents, help="The agent; by default that of the thread."),
    ] = None,
    model: ModelOption = None,
) -> None:
    """Start a run on a new branch of a thread, and print its id."""
    text = read_input(input)
    with connect() as hf:
        newest = next(iter(hf.runs.list(thread=thread_id, limit=1)), None) if run is None else None
        base = run or (None if newest is None else newest.id)
        if base is None:
            raise NotFound(f"thread `{thread_id}` has no run to branch from: start one with `holdfast run start`")
        started = hf.run(base).fork(text, after=after, agent=agent, model=model).get()
    print_json(started) if options().as_json else typer.echo(started.id)


@command(thread)
def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to search for, in plain words.")],
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="NUMBER", min=1, max=100, help="At most so many.")
    ] = 10,
    type: Annotated[
        Literal["all", "keyword", "semantic"],
        typer.Option(metavar="TYPE", help="`keyword` (words), `semantic` (meaning), or `all` (both)."),
    ] = "all",
) -> None:
    """Search what was said in threads, and their outlines, best first."""
    query = {"q": text, "limit": limit, "type": type}
    with connect() as hf:
        found = msgspec.json.decode(hf.request("GET", hf.path("/threads/search"), query=query))
    if found["notice"]:
        print_message(found["notice"])
    print_list(
        found["results"],
        [
            ("thread", lambda hit: hit["thread"]["id"]),
            ("score", lambda hit: f"{hit['score']:.2f}"),
            ("last run", lambda hit: short_time(hit["thread"]["last_run_at"])),
            ("title", lambda hit: one_line(hit["thread"]["title"])),
            ("excerpt", lambda hit: one_line((hit["messages"] or [hit])[0]["excerpt"]["text"])),
        ],
        empty="no thread matches",
    )


@command(thread)
def watch(thread_id: ThreadArgument) -> None:
    """Show every run of a thread as it works: the newest one, then those that follow, until Ctrl-C."""
    from holdfast.cli.monitor import watch_thread

    run_until_interrupted(watch_thread(thread_id))


@command(thread)
def export(thread_id: ThreadArgument) -> None:
    """Print the whole conversation as Markdown; with `--json`, as JSON."""
    with connect() as hf:
        typer.echo(hf.threads.export(thread_id, format="json" if options().as_json else "markdown"))


@command(thread)
def archive(thread_id: ThreadArgument) -> None:
    """Archive a thread: it accepts no new run."""
    with connect() as hf:
        print_done(hf.threads.archive(thread_id), f"archived {thread_id}")


@command(thread)
def unarchive(thread_id: ThreadArgument) -> None:
    """Accept new runs on an archived thread again."""
    with connect() as hf:
        print_done(hf.threads.unarchive(thread_id), f"unarchived {thread_id}")


@command(thread)
def delete(thread_id: ThreadArgument) -> None:
    """Delete a thread: it leaves all lists."""
    with connect() as hf:
        hf.threads.delete(thread_id)
    print_done({"deleted": thread_id}, f"deleted {thread_id}")
