"""`holdfast run …`: start runs, read everything about them, and end them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli.arguments import (
    AgentArgument,
    AgentFilter,
    InputArgument,
    LimitOption,
    ModelOption,
    RunArgument,
    ThreadFilter,
    ThreadOption,
    complete_runs,
    read_input,
)
from holdfast.cli.command import command, connect, new_group, options, server_options
from holdfast.cli.output import print_json, print_message, strip_control_chars
from holdfast.cli.questions import answer_lines
from holdfast.cli.tables import input_line, one_line, print_done, print_list, print_object, print_tree, short_time
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.run import Mode, Run, RunStatus

if TYPE_CHECKING:
    from holdfast.control.run_details import EventView

EXIT_CODES: Final[Mapping[RunStatus, int]] = {RunStatus.COMPLETED: 0, RunStatus.FAILED: 1, RunStatus.CANCELLED: 3}
EXIT_WAITING: Final = 5
"""Exit code of a command whose run waits for a person."""
_EVENT_COLUMNS: Final = frozenset({"type", "timestamp", "threadId", "runId"})
"""Fields of an event that its line shows already."""
run: Final = new_group("Start, list, follow, answer and cancel runs.")


@command(run)
def start(
    agent: AgentArgument,
    input: InputArgument = None,
    thread: ThreadOption = None,
    model: ModelOption = None,
    base: Annotated[
        str | None, typer.Option(metavar="RUN_ID", autocompletion=complete_runs, help="The run to continue from.")
    ] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="The title of a new thread.")] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="A tag; may be repeated.")] = None,
) -> None:
    """Start a run of AGENT and print its id; it goes on without this command."""
    text = read_input(input)
    with connect() as hf:
        started = hf.start(agent, text, thread=thread, model=model, base_run_id=base, title=title, tags=tag or ()).get()
    if options().as_json:
        print_json(started)
    else:
        typer.echo(started.id)
        print_message(f"see it: holdfast run follow {started.id}{server_options()}")


@command(run, "list")
def list_runs(
    status: Annotated[RunStatus | None, typer.Option(help="Only with this status.")] = None,
    agent: AgentFilter = None,
    mode: Annotated[Mode | None, typer.Option(help="Only of this mode.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Only with this tag.")] = None,
    thread: ThreadFilter = None,
    limit: LimitOption = 50,
) -> None:
    """List runs, newest first."""
    with connect() as hf:
        print_list(
            hf.runs.list(status=status, agent=agent, mode=mode, tag=tag, thread=thread, limit=limit),
            [
                ("run", lambda run: run.id),
                ("status", lambda run: run.status),
                ("agent", lambda run: run.agent_type),
                ("created", lambda run: short_time(run.created_at)),
                ("input", lambda run: input_line(run.input)),
            ],
            empty="no runs",
        )


@command(run)
def show(run_id: RunArgument) -> None:
    """Show a run, and the command that answers it if it waits."""
    with connect() as hf:
        found = hf.run(run_id).get()
        questions = [] if found.status.terminal else list(hf.run(run_id).interrupts())
    fields = [(name, getattr(found, name)) for name in ("id", "status", "status_reason", "agent_type", "model_used")]
    fields += [(name, getattr(found, name)) for name in ("thread_id", "base_run_id", "parent_run_id", "tags")]
    fields += [(name, short_time(getattr(found, name))) for name in ("created_at", "started_at", "completed_at")]
    fields += [("input", found.input), ("output", found.output), ("error", found.error), ("usage", _usage_text(found))]
    print_object(found, fields)
    if not options().as_json:
        explain(found, questions)


def _usage_text(found: Run) -> str:
    usage = found.usage
    cached = f" ({usage.cached_input_tokens} cached)" if usage.cached_input_tokens else ""
    return f"{usage.input_tokens} tokens in{cached}, {usage.output_tokens} out, ${usage.cost_usd:.4f}"


@command(run)
def cancel(
    run_id: RunArgument,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="The reason, for the log.")] = None,
) -> None:
    """Cancel a run with everything that it started."""
    with connect() as hf:
        ended = hf.run(run_id).cancel(reason)
    print_done(ended, f"run {ended.id} {ended.status}")


@command(run)
def retry(
    run_id: RunArgument,
    from_start: Annotated[bool, typer.Option("--from-start", help="Begin again, not after the last step.")] = False,
) -> None:
    """Start a run that continues a failed or cancelled one, and print its id."""
    with connect() as hf:
        started = hf.run(run_id).retry(from_start=from_start).get()
    print_json(started) if options().as_json else typer.echo(started.id)


@command(run)
def steps(run_id: RunArgument) -> None:
    """List the model calls and tool calls of a run."""
    with connect() as hf:
        print_list(
            hf.run(run_id).steps(),
            [
                ("number", lambda step: step.number),
                ("kind", lambda step: step.kind),
                ("name", lambda step: step.name),
                ("state", lambda step: step.state),
                ("attempt", lambda step: step.attempt),
            ],
            empty="no steps yet",
        )


@command(run)
def events(run_id: RunArgument) -> None:
    """List the events that are in the log of a run now."""
    with connect() as hf:
        print_list(
            hf.run(run_id).events(),
            [
                ("seq", lambda event: event.seq),
                ("created", lambda event: short_time(event.created_at)),
                ("type", lambda event: event_summary(event)[0]),
                ("data", lambda event: one_line(event_summary(event)[1], 160)),
            ],
            empty="no events",
        )


def event_summary(event: "EventView") -> tuple[str, Any]:
    """Return the kind of an event, that of a custom one by its name, and what the other columns do not say already."""
    if event.type == "CUSTOM":
        return str(event.data.get("name", event.type)), event.data.get("value")
    shown = {name: value for name, value in event.data.items() if name not in _EVENT_COLUMNS}
    return event.type, shown or None


@command(run)
def context(
    run_id: RunArgument,
    step: Annotated[int | None, typer.Option(metavar="NUMBER", help="The model call; by default the newest.")] = None,
) -> None:
    """Show what was sent to the model: the system prompt, the messages and the tools."""
    with connect() as hf:
        view = hf.run(run_id).context(step)
    if options().as_json:
        print_json(view)
    elif view.context is None:
        print_message("no model call yet")
    else:
        sent = view.context
        print_message(f"steps with a context: {', '.join(map(str, view.steps))}")
        typer.echo(f"model   {sent.model}\nsystem\n{strip_control_chars(sent.system)}\n")
        for message in sent.messages:
            typer.echo(f"{message.role}\n  {one_line(message.content or message.tool_calls, 2000)}")


@command(run)
def tree(run_id: RunArgument) -> None:
    """Show a run with the runs that it spawned, and theirs."""
    with connect() as hf:
        found = hf.run(run_id).get()
        family = list(hf.runs.list(root=found.root_run_id or found.id))
        if found.id not in {each.id for each in family}:
            family.append(found)
    if options().as_json:
        print_json(family)
        return
    print_tree(
        [
            (each.id, each.parent_run_id, f"{each.id}  {each.status}  {each.agent_type}  {input_line(each.input, 60)}")
            for each in sorted(family, key=lambda each: each.created_at)
        ],
        root=found.id,
    )


def explain(found: Run, questions: list[Interrupt]) -> None:
    """Print why a run has not completed, and how to answer it."""
    if found.error is not None:
        print_message(f"run {found.id} {found.status}: {found.error.message} [{found.error.code}]")
    elif found.status.terminal and found.status is not RunStatus.COMPLETED:
        print_message(f"run {found.id} {found.status}")
    for question in questions:
        for line in answer_lines(question, server=server_options()):
            print_message(line)
