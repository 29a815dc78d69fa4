"""A worker is killed with SIGKILL while its agent writes files: every write is applied and reported once."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from holdfast.bootstrap.store import open_store
from holdfast.domain.events import Custom, decode_event
from holdfast.domain.events.custom import FileAction, FileChanged, from_custom
from holdfast.domain.ids import RunId
from holdfast.domain.message import Role
from holdfast.domain.run import RunStatus
from holdfast.domain.space import DEFAULT_SPACE
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.scenario.file_victim import WORKER, Task
from tests.support.database_probe import open_probe
from tests.support.fork_server import ForkServer
from tests.support.log_check import check_log

TURNS: Final = [
    calling(call("read_file", path="ledger"), call("read_file", path="notes")),
    # A repeated write would fail visibly.
    calling(
        call("edit_file", path="ledger", old="paid", new="paid, paid"), call("write_file", path="new/a", content="1")
    ),
    calling(call("write_file", path="notes", content="second\n")),
    say("Done."),
]
BEFORE: Final = {"ledger": "paid\n", "notes": "first\n"}
AFTER: Final = {"ledger": "paid, paid\n", "notes": "second\n", "new/a": "1"}
CHANGES: Final = ["fsync", "rename", "fsync"]
"""The disk operations of the three writes; one creates a folder first."""


@pytest.fixture(scope="module")
async def writers() -> AsyncIterator[ForkServer]:
    async with ForkServer(WORKER) as server:
        yield server


async def test_a_kill_at_any_disk_operation_loses_no_write_and_repeats_none(
    writers: ForkServer, shared_memory: Path
) -> None:
    database = shared_memory / "holdfast.db"
    workspace = AgentWorkspace(shared_memory / "workspace", database)
    workspace.agent(*TURNS, tools=["read_file", "edit_file", "write_file"])
    # The first run writes the version of the agent to the disk.
    first = Task(database=str(database), workspace=str(workspace.folder), run=RunId("run-0"))
    await writers.send(msgspec.to_builtins(first))
    deaths: list[str] = []
    while await _kill_and_finish(writers, workspace, deaths):
        pass
    assert deaths == [*CHANGES, "mkdir", "fsync", *CHANGES, *CHANGES]
    async with open_probe(database) as probe:
        await check_log(probe)


async def _kill_and_finish(writers: ForkServer, workspace: AgentWorkspace, deaths: list[str]) -> bool:
    """Kill a worker at the next point, if there is one, and let another finish its run."""
    fatal = len(deaths) + 1
    files = workspace.folder / "files"
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    for name, text in BEFORE.items():
        (files / name).write_text(text)
    run = RunId(f"run-{fatal}")
    task = Task(database=str(workspace.database), workspace=str(workspace.folder), run=run, fatal=fatal)
    death = await writers.send(msgspec.to_builtins(task))
    if not death.killed:
        return False
    deaths += [message["died"] for message in death.messages]
    await writers.send(msgspec.to_builtins(msgspec.structs.replace(task, fatal=None)))
    contents = {str(path.relative_to(files)): path.read_text() for path in files.rglob("*") if path.is_file()}
    assert contents == AFTER, deaths[-1]
    await _check(workspace.database, run, deaths[-1])
    return True


async def _check(database: str | Path, run: RunId, death: str) -> None:
    async with open_store(database, read_only=True) as store:
        assert (await store.runs.get(DEFAULT_SPACE, run)).status is RunStatus.COMPLETED
        messages = await store.messages.of_run(DEFAULT_SPACE, run)
        events = [decode_event(event.data) for event in await store.events.after(DEFAULT_SPACE, run, limit=10_000)]
    results = [message for message in messages if message.role is Role.TOOL]
    assert len(results) == 5
    assert [result.content for result in results if "failed" in result.metadata] == [], death
    custom_events = [from_custom(event) for event in events if isinstance(event, Custom)]
    changes = [event for event in custom_events if isinstance(event, FileChanged)]
    assert [change.path for change in changes] == ["ledger", "new/a", "notes"]
    assert changes[0].action is FileAction.CHANGED
    assert changes[0].diff == "--- a/ledger\n+++ b/ledger\n@@ -1,1 +1,1 @@\n-paid\n+paid, paid\n"
