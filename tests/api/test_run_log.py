"""The server's log has a line for each run that starts, waits or ends."""

import asyncio
import json
import logging

import pytest

from holdfast.bootstrap.logs import JsonLines, TextLines
from holdfast.control.run_log import RunLog
from tests.api.site import Site, eventually
from tests.api.test_runs import asking


async def test_a_run_leaves_a_line_when_it_starts_waits_and_ends(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    log = RunLog(events=site.store.events, runs=site.store.runs, pause=0)

    def lines(run: str) -> list[logging.LogRecord]:
        told = [record for record in caplog.records if record.name == "holdfast.runs"]
        return [record for record in told if record.__dict__["said"]["run_id"] == run]

    with site.floor.holdfast.watcher.listen(log.hear), caplog.at_level(logging.INFO, logger="holdfast.runs"):
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(log.run())
            run = await asking(site)

            async def waits() -> bool:
                return any(record.__dict__["said"]["status"] == "waiting" for record in lines(run["id"]))

            await eventually(waits)
            await site.post(f"/api/runs/{run['id']}/cancel", {"reason": "enough"}, expect=200)

            async def is_over() -> bool:
                return any(record.__dict__["said"]["status"] == "cancelled" for record in lines(run["id"]))

            await eventually(is_over)
            writing.cancel()
    text = [TextLines().format(record) for record in lines(run["id"])]
    assert f"run {run['id']} waits" in text[-2]
    assert f"run {run['id']} cancelled after " in text[-1]
    said = [json.loads(JsonLines().format(record)) for record in lines(run["id"])]
    assert {each["logger"] for each in said} == {"holdfast.runs"}
    assert [each["status"] for each in said][-2:] == ["waiting", "cancelled"]
    assert said[-1]["agent"] == "asker"
