"""The server logs a line when a run starts, waits or ends."""

import asyncio
import json
import logging

import pytest

from holdfast.bootstrap.logs import JsonLogFormatter, TextLogFormatter
from holdfast.control.run_logging import RunStatusLogger
from tests.api.site import Site, eventually
from tests.api.test_runs import start_waiting_run


async def test_a_run_is_logged_when_it_starts_waits_and_ends(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    log = RunStatusLogger(events=site.store.events, runs=site.store.runs, gather_seconds=0)

    def lines(run: str) -> list[logging.LogRecord]:
        records = [record for record in caplog.records if record.name == "holdfast.runs"]
        return [record for record in records if record.__dict__["fields"]["run_id"] == run]

    with site.floor.holdfast.watcher.listen(log.on_wake), caplog.at_level(logging.INFO, logger="holdfast.runs"):
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(log.run())
            run = await start_waiting_run(site)

            async def waits() -> bool:
                return any(record.__dict__["fields"]["status"] == "waiting" for record in lines(run["id"]))

            await eventually(waits)
            await site.post(f"/api/runs/{run['id']}/cancel", {"reason": "enough"}, expect=200)

            async def has_ended() -> bool:
                return any(record.__dict__["fields"]["status"] == "cancelled" for record in lines(run["id"]))

            await eventually(has_ended)
            writing.cancel()
    text = [TextLogFormatter().format(record).partition(" ")[2] for record in lines(run["id"])]
    assert text[:2] == [f"run {run['id']} started", f"run {run['id']} waits"]
    assert text[2].startswith(f"run {run['id']} cancelled after ")
    entries = [json.loads(JsonLogFormatter().format(record)) for record in lines(run["id"])]
    assert {each["logger"] for each in entries} == {"holdfast.runs"}
    assert [each["status"] for each in entries] == ["running", "waiting", "cancelled"]
    assert entries[-1]["agent"] == "asker"


async def test_a_short_run_is_logged_when_it_starts_and_ends(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    log = RunStatusLogger(events=site.store.events, runs=site.store.runs, gather_seconds=0)
    with site.floor.holdfast.watcher.listen(log.on_wake), caplog.at_level(logging.INFO, logger="holdfast.runs"):
        run = await site.play((await site.post("/api/threads", {"agent_type": "bot"}))["id"], "go")
        async with asyncio.TaskGroup() as tasks:  # the logger starts after the run has ended
            writing = tasks.create_task(log.run())

            async def has_ended() -> bool:
                return any(f"run {run['id']} completed" in message for message in caplog.messages)

            await eventually(has_ended)
            writing.cancel()
    assert [message.split()[2] for message in caplog.messages if run["id"] in message] == ["started", "completed"]
