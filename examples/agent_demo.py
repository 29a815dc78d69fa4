"""An agent at work, shown live; its worker is killed in the middle, and another one goes on.

    python examples/agent_demo.py

The worker is a process of its own, on one SQLite file. This process only reads the log. When the agent is in the middle
of its second answer, the worker gets a SIGKILL. The next worker finds everything in the log: what was settled stays
settled, and the answer that was cut off is void and given again.
"""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import holdfast
from holdfast import NewMessage, NewRun, NewThread, Options, Role, Store, open_bus, open_store
from holdfast.bootstrap.workspace import DEFAULT_SPACE
from holdfast.domain.events import (
    Custom,
    Event,
    RunFinished,
    SubagentFinished,
    SubagentStarted,
    TextMessageContent,
    TextMessageStart,
    ToolCallResult,
    ToolCallStart,
    decode,
)
from holdfast.domain.events.custom import Abandoned, ArtifactMade, PlanChanged, StatusChanged, from_custom
from holdfast.domain.ids import RunId
from holdfast.domain.plan import PlanItem, PlanStatus, SubtaskStatus

WORKSPACE: Final = Path(__file__).parent / "bakery"
QUESTION: Final = "Please plan a birthday cake for twelve. No nuts!"
RUN: Final = RunId("the-cake")
DEATH: Final = "needs no nuts"
"""Once the agent has said this, its worker dies."""
MARKS: Final = {
    PlanStatus.PLANNED: " ",
    PlanStatus.IN_PROGRESS: "▸",
    PlanStatus.BLOCKED: "!",
    PlanStatus.COMPLETED: "✓",
    PlanStatus.CANCELLED: "×",
}


async def show() -> None:
    """Run the agent, kill its worker once, and print what happens."""
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        workspace = Path(folder) / "bakery"
        shutil.copytree(WORKSPACE, workspace, ignore=shutil.ignore_patterns(".holdfast"))
        print(f"user   {QUESTION}\n")
        worker = await _start_worker(workspace)
        screen = _Screen()
        async for event in _log(workspace):
            screen.show(event)
            if DEATH in screen.said and screen.deaths == 0:
                worker = await _replace(worker, workspace)
                screen.death()
        await worker.wait()
        await _summary(workspace)


async def work(workspace: Path) -> None:
    """Run the agents of the workspace until the run has ended."""
    async with holdfast.open(workspace, options=Options(workers=4)) as here:
        question = NewMessage(role=Role.USER, content=QUESTION)
        new = NewRun(id=RUN, thread=NewThread(agent_type="planner"), messages=[question], idempotency_key="the-cake")
        run = (await here.runs.start(DEFAULT_SPACE, new)).run
        print("begun", flush=True)
        with here.watcher.watch(DEFAULT_SPACE, run.id) as watch:
            while (head := await watch.beyond(run.last_event_seq)) is not None and not head.status.terminal:
                run = await here.store.runs.get(DEFAULT_SPACE, run.id)


class _Screen:
    """Prints events as they come."""

    def __init__(self) -> None:
        self.said = ""
        self.deaths = 0
        self._names: dict[str, str] = {}
        self._in_line = False

    def show(self, event: Event) -> None:
        """Print one event."""
        if isinstance(event, TextMessageContent):
            self.said += event.delta
            print(event.delta, end="", flush=True)
            return
        if self._in_line:
            self._in_line = False
            print()
        match event:
            case TextMessageStart():
                self._in_line = True
                print("agent  ", end="", flush=True)
            case ToolCallStart(tool_call_id=call, tool_call_name=name):
                self._names[call] = name
            case ToolCallResult(tool_call_id=call, content=content):
                print(f"tool   {self._names.get(call, '?')} ─► {content}")
            case SubagentStarted(name=name):
                print(f"child  {name} begins; this run waits and costs nothing")
            case SubagentFinished():
                print("child  is done")
            case Custom():
                self._show_own(event)
            case RunFinished(usage=usage):
                print(f"\nfinished, {usage[0].total_tokens if isinstance(usage, list) else 0} tokens")
            case _:
                pass

    def death(self) -> None:
        """Print that the worker was killed."""
        self.deaths += 1
        print("\n\n       ── the worker was killed with SIGKILL; another one opens the file ──\n\n       ", end="")
        self._in_line = True

    def _show_own(self, event: Custom) -> None:
        match from_custom(event):
            case PlanChanged(items=items):
                for item in items:
                    print(f"plan   {_line(item)}")
            case ArtifactMade(title=title, size=size):
                print(f"made   {title!r}, {size} bytes")
            case Abandoned(through=through):
                print(f"log    what it was saying, up to event {through}, is void: it is asked again")
            case StatusChanged(to=to, reason=reason):
                print(f"log    {to}{f' ({reason})' if isinstance(reason, str) else ''}")
            case _:
                pass


def _line(item: PlanItem) -> str:
    done = sum(subtask.status is SubtaskStatus.DONE for subtask in item.subtasks)
    subtasks = f" ({done}/{len(item.subtasks)})" if item.subtasks else ""
    return f"[{MARKS[item.status]}] {item.task_id}. {item.title}{subtasks}"


async def _log(workspace: Path) -> AsyncIterator[Event]:
    """Yield the events of the run as they are committed, however often its worker changes."""
    database = workspace / ".holdfast" / "holdfast.db"
    async with open_bus(database) as bus, open_store(database, bus=bus, read_only=True) as store:
        seq, ended = 0, False
        while not ended:
            await asyncio.sleep(0.03)
            heads = await store.events.heads([(DEFAULT_SPACE, RUN)])
            ended = bool(heads) and heads[0].status.terminal
            for logged in await store.events.after(DEFAULT_SPACE, RUN, seq=seq) if heads else ():
                seq = logged.seq
                yield decode(logged.data)


async def _start_worker(workspace: Path) -> Process:
    """Start a worker and wait until it has begun."""
    command = (sys.executable, __file__, "--work", str(workspace))
    worker = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert worker.stdout is not None
    await worker.stdout.readline()
    return worker


async def _replace(worker: Process, workspace: Path) -> Process:
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    return await _start_worker(workspace)


async def _summary(workspace: Path) -> None:
    """Print what the log says in the end."""
    async with open_store(workspace / ".holdfast" / "holdfast.db", read_only=True) as store:
        print("\nEvery step settled once:")
        for step in await store.steps.of_run(DEFAULT_SPACE, RUN):
            tries = f", at try {step.attempt}" if step.attempt > 1 else ""
            print(f"  {step.number:3}  {step.kind:5}  {step.name:22}  {step.state}{tries}")
        await _print_artifacts(store)


async def _print_artifacts(store: Store) -> None:
    for listed in (await store.artifacts.page(DEFAULT_SPACE, run=RUN)).items:
        artifact = await store.artifacts.get(DEFAULT_SPACE, listed.id)
        print(f"\nThe artifact {artifact.title!r}:\n")
        print("\n".join(f"  {line}" for line in (artifact.content or "").splitlines()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--work", type=Path, metavar="WORKSPACE", help="be the worker of a workspace")
    arguments = parser.parse_args()
    asyncio.run(show() if arguments.work is None else work(arguments.work))
