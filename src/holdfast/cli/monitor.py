"""`holdfast logs`, `holdfast top` and the watching verbs: what happens in a space, as it happens."""

import math
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from holdfast.cli.arguments import AgentFilter, LimitOption
from holdfast.cli.command import command, connect, connect_async, options, run_until_interrupted, server_options
from holdfast.cli.output import print_json, print_message, strip_control_chars
from holdfast.cli.runs import event_summary, run
from holdfast.cli.tables import input_line, one_line, print_rows, short_time
from holdfast.control.errors import Forbidden
from holdfast.domain.errors import Unavailable
from holdfast.domain.run import Priority, Run, RunStatus
from holdfast.domain.worker import Queue, SpaceBacklog, SpaceBacklogs, WorkerStatus

if TYPE_CHECKING:
    from rich.console import Group

    from holdfast.client.client import Client
    from holdfast.client.sync.client import SyncClient
    from holdfast.control.run_details import EventView

QUIET_EVENTS: Final = frozenset(
    {
        "TEXT_MESSAGE_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_START",
        "REASONING_END",
    }
)
"""Events that `logs` leaves out: parts of messages, which it shows once they are complete, and reasoning."""
ACTIVE: Final = (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.QUEUED, RunStatus.PENDING)
MAX_TOP_RUNS: Final = 200


def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new events until Ctrl-C.")] = False,
    agent: AgentFilter = None,
    limit: LimitOption = 20,
) -> None:
    """Show what happened in the space: the events of its newest runs, by time; `-f` goes on with what happens."""
    work = _logs(follow=follow, agent=agent, limit=limit)
    run_until_interrupted(work)


async def _logs(*, follow: bool, agent: str | None, limit: int) -> None:
    async with connect_async() as hf:
        seen: dict[str, int] = {}
        texts: dict[str, str] = {}
        newest = [each async for each in hf.runs.list(agent=agent, limit=limit)]
        past = [(event.created_at, each, event) for each in newest async for event in hf.run(each.id).events()]
        for _, each, event in sorted(past, key=lambda entry: (entry[0], entry[2].seq)):
            seen[each.id] = event.seq
            _print_event(each.id, event, texts)
        if not newest and not follow:
            print_message("no runs")
        if not follow:
            return
        async for hint in _hints(hf):
            if agent is not None and (await hf.run(hint["run_id"]).get()).agent_type != agent:
                continue
            async for event in hf.run(hint["run_id"]).events(after=seen.get(hint["run_id"], 0)):
                seen[hint["run_id"]] = event.seq
                _print_event(hint["run_id"], event, texts)


async def _hints(hf: "Client") -> AsyncIterator[Any]:
    hf.retry_seconds = math.inf
    async for hint in hf.feed(on_connection=print_message):
        yield hint


def _print_event(run_id: str, event: "EventView", texts: dict[str, str]) -> None:
    """Print an event on one line; `texts` collects the parts of messages and arguments until they are complete."""
    if options().as_json:
        print_json({"run_id": run_id, "seq": event.seq, "created_at": event.created_at, "data": event.data})
    elif event.type in ("TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS"):
        key = event.data.get("messageId") or event.data.get("toolCallId")
        texts[str(key)] = texts.get(str(key), "") + str(event.data.get("delta", ""))
    elif event.type in ("TEXT_MESSAGE_END", "TOOL_CALL_END"):
        key = event.data.get("messageId") or event.data.get("toolCallId")
        typer.echo(f"{short_time(event.created_at)}  {run_id}  {event.type}  {one_line(texts.pop(str(key), ''), 160)}")
    elif event.type not in QUIET_EVENTS:
        kind, values = event_summary(event)
        typer.echo(f"{short_time(event.created_at)}  {run_id}  {kind}  {one_line(values, 160)}".rstrip())


@command(run)
def watch() -> None:
    """Print a line whenever a run of the space changes its status, until Ctrl-C."""
    run_until_interrupted(_watch())


async def _watch() -> None:
    async with connect_async() as hf:
        shown: dict[str, str] = {}
        async for hint in _hints(hf):
            if shown.get(hint["run_id"]) == hint["status"]:
                continue
            shown[hint["run_id"]] = hint["status"]
            if options().as_json:
                print_json(hint)
            else:
                found = await hf.run(hint["run_id"]).get()
                text = input_line(found.input, 60)
                typer.echo(f"{hint['run_id']}  {hint['status']:<9}  {found.agent_type}  {text}")


async def watch_thread(thread_id: str) -> None:
    """Show the newest run of a thread and those that follow, each until it has ended."""
    from holdfast.cli.follow import JsonLinesView, RunView
    from holdfast.cli.terminal_view import TerminalView, stdout_console

    async with connect_async() as hf:
        await hf.threads.get(thread_id)
        done: set[str] = set()
        while True:
            runs = [each async for each in hf.runs.list(thread=thread_id)]
            new = [each for each in reversed(runs) if each.id not in done]
            if not done:  # of the past only the newest
                done.update(each.id for each in new[:-1])
                new = new[-1:]
            for each in new:
                view: RunView = JsonLinesView()
                if not options().as_json:
                    respond = f"holdfast run respond {each.id}{server_options()}"
                    view = TerminalView(stdout_console(), respond_command=respond)
                view.show_run(each)
                stream = hf.run(each.id).stream(on_connection=view.notify, retry_seconds=math.inf)
                async for event in stream:
                    view.show_event(event.data)
                done.add(each.id)
            if not new:
                async for hint in _hints(hf):
                    if hint["thread_id"] == thread_id and hint["run_id"] not in done:
                        break


def top(
    once: Annotated[bool, typer.Option("--once", help="Print it once, as in a pipe.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", "-i", metavar="SECONDS", min=0.2, help="Seconds between two looks.")
    ] = 1.0,
) -> None:
    """Show the queue, the workers, the spaces that wait and the active runs of the space, live until Ctrl-C."""
    import sys

    with connect() as hf:
        if options().as_json:
            print_json(_snapshot(hf))
            return
        if once or not sys.stdout.isatty():
            shown = _snapshot(hf)
            typer.echo(_title(shown))
            for number, rows in enumerate(_tables(shown)):
                if number:
                    typer.echo()
                print_rows(rows)
            return
        import time

        from rich.console import Console
        from rich.live import Live

        shown = _snapshot(hf)
        try:
            with Live(_screen(shown), console=Console(highlight=False), screen=True, auto_refresh=False) as live:
                while True:
                    time.sleep(interval)
                    notice = ""
                    try:
                        shown = _snapshot(hf)
                    except Unavailable as error:
                        notice = f"\nas it was before the connection broke: {error.message}"
                    live.update(_screen(shown, notice=notice), refresh=True)
        except KeyboardInterrupt:
            return


def _snapshot(hf: "SyncClient") -> dict[str, Any]:
    queue = hf.send("GET", "/queue", Queue, query={"limit": 1})
    return {
        "url": hf.url,
        "counts": {
            "running": queue.counts.running,
            "waiting": queue.counts.waiting,
            "queued": queue.counts.ready + queue.counts.delayed,
            "pending": queue.counts.pending,
        },
        "metrics": _metrics(hf),
        "runs": [each for status in ACTIVE for each in hf.runs.list(status=status, limit=MAX_TOP_RUNS)],
        "queue": msgspec.structs.replace(queue, items=[], next_cursor=None),
        "workers": hf.send("GET", "/workers", dict[str, list[WorkerStatus]])["items"],
        "spaces": _backlogs(hf),
    }


def _backlogs(hf: "SyncClient") -> list[SpaceBacklog]:
    """Return what waits and works in each space, if the key is for all of them."""
    try:
        return hf.send("GET", "/queue/spaces", SpaceBacklogs, in_space=False).items
    except Forbidden:
        return []


def _metrics(hf: "SyncClient") -> dict[str, float]:
    """Return the totals of the process that the metrics report, without their labels."""
    totals: dict[str, float] = {}
    try:
        text = hf.request("GET", "/metrics").decode()
    except Forbidden:  # they concern all spaces, and the key does not
        return totals
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        name = name.partition("{")[0]
        if name in _TOP_METRICS:
            totals[name] = totals.get(name, 0.0) + float(value)
    return totals


_TOP_METRICS: Final = {
    "holdfast_runs_claimed_total": "runs claimed",
    "holdfast_model_tokens_total": "tokens",
    "holdfast_model_cost_usd_total": "cost",
    "holdfast_stream_clients": "streams",
    "holdfast_event_loop_stalls_total": "stalls",
}


_RUN_COLUMNS: Final = ("RUN", "STATUS", "AGENT", "STARTED", "STEPS", "TOKENS", "COST", "INPUT")
_WORKER_COLUMNS: Final = ("WORKER", "HOST", "VERSION", "POOLS", "BUSY", "LAST BEAT", "RUNS OF THIS SPACE")
_SPACE_COLUMNS: Final = (
    "SPACE",
    "READY",
    *(each.upper() for each in Priority),
    "OLDEST",
    "DELAYED",
    "RUNNING",
    "LIMIT",
    "WEIGHT",
)


def _title(shown: Mapping[str, Any]) -> str:
    counts = "  ".join(f"{name} {number}" for name, number in shown["counts"].items())
    queue, alive = shown["queue"], [each for each in shown["workers"] if each.alive]
    ready = ", ".join(f"{number} {name}" for name, number in queue.by_priority.items() if number)
    waits = f"  ready {ready}, the oldest for {queue.oldest_ready_seconds:.0f} s" if ready else ""
    busy = sum(len(each.runs) + each.other_runs for each in alive)
    workers = f"workers {len(alive)}, busy {busy} of {sum(each.concurrency for each in alive)}"
    totals = "".join(f"  {_TOP_METRICS[name]} {value:g}" for name, value in shown["metrics"].items())
    return f"{shown['url']}  {counts}{waits}\n{workers}{totals}"


def _tables(shown: Mapping[str, Any]) -> list[list[list[str]]]:
    """Return the tables of workers, of spaces if more than one has queued runs or runs at work, and of runs."""
    spaces = [[[*_SPACE_COLUMNS], *map(_space_row, shown["spaces"])]] if len(shown["spaces"]) > 1 else []
    workers = [[*_WORKER_COLUMNS], *map(_worker_row, shown["workers"])]
    return [workers, *spaces, [[*_RUN_COLUMNS], *map(_run_row, shown["runs"])]]


def _screen(shown: Mapping[str, Any], *, notice: str = "") -> "Group":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[Table | Text] = [Text(_title(shown) + notice)]
    for names, *rows in _tables(shown):
        table = Table(box=None, pad_edge=False)
        for name in names:
            table.add_column(name, no_wrap=True)
        for row in rows:
            table.add_row(*map(Text, row))
        parts += [Text(), table]
    return Group(*parts)


def _run_row(each: Run) -> list[str]:
    cost = each.usage.cost_usd
    cells = [
        each.id,
        str(each.status),
        each.agent_type,
        short_time(each.started_at or each.created_at)[11:],
        str(each.iterations),
        str(each.usage.total_tokens),
        "" if not cost else f"${cost:.4f}",
        input_line(each.input, 40),
    ]
    return [*map(strip_control_chars, cells)]


def _worker_row(each: WorkerStatus) -> list[str]:
    held = len(each.runs) + each.other_runs
    cells = [
        each.id,
        each.host,
        each.version,
        ", ".join(each.pools),
        f"{held} of {each.concurrency}",
        short_time(each.last_beat_at)[11:] + ("" if each.alive else ", gone"),
        one_line(", ".join(run.run_id for run in each.runs)),
    ]
    return [*map(strip_control_chars, cells)]


def _space_row(each: SpaceBacklog) -> list[str]:
    return [
        each.space_id,
        str(each.ready),
        *(str(each.by_priority[priority]) for priority in Priority),
        f"{each.oldest_ready_seconds:.0f} s" if each.ready else "",
        str(each.delayed),
        str(each.running),
        "" if each.max_running is None else str(each.max_running),
        str(each.weight),
    ]
