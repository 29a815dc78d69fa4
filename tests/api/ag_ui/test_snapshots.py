"""Snapshots on the streams of the native API, as the client of AG-UI applies them."""

import asyncio
import re
from pathlib import Path

from holdfast.domain.content import Json
from holdfast.domain.ids import RunId
from tests.api.ag_ui.driver import Driver, Outcome
from tests.api.ag_ui.test_recovery import TIMEOUT_SECONDS, abandoning_site
from tests.api.site import Site, eventually
from tests.scenario.agents.agent_workspace import say

STREAM = {"Accept": "text/event-stream"}


async def apply(driver: Driver, stream: str) -> Outcome:
    """Return what a client makes of a stream that it applies event by event."""
    outcome = Outcome(await driver.send("hear", stream=stream))
    assert outcome.failed is None
    return outcome


def frames(stream: str) -> list[tuple[int, str]]:
    """Return the number and the JSON of each event of a stream."""
    return [(int(seq), data) for seq, data in re.findall(r"id: (\d+)\ndata: (.*)\n\n", stream)]


async def start_native_stream(site: Site, thread: str, **body: Json) -> tuple[str, str]:
    """Start a run, and return its id and its stream once it has ended."""
    answer = await site.request("POST", f"/api/threads/{thread}/runs", json={"input": "go", **body}, headers=STREAM)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-run-id"], answer.text


async def recovered_stream(site: Site) -> tuple[str, str]:
    """Return the id and the stream of a native run whose first answer was abandoned."""
    thread = await site.thread()

    async def is_abandoned() -> bool:
        events = await site.request("GET", "/api/runs/recovered/events")
        return "holdfast.abandoned" in events.text

    async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(start_native_stream(site, thread, id="recovered"))
        await eventually(is_abandoned)
        site.workshop.script(say("the whole"))
    return running.result()


async def test_a_client_of_a_native_stream_keeps_only_the_whole_answer(driver: Driver, tmp_path: Path) -> None:
    async with abandoning_site(tmp_path, say("half of")) as site:
        _, stream = await recovered_stream(site)
        assert (await apply(driver, stream)).said == ["user: go", "assistant: the whole"]


async def test_a_stream_with_snapshots_adds_them_to_the_log_under_the_number_of_the_event_before(
    driver: Driver, tmp_path: Path
) -> None:
    async with abandoning_site(tmp_path, say("half of")) as site:
        run, posted = await recovered_stream(site)
        path = f"/api/runs/{run}/sse"
        plain = frames((await site.request("GET", path)).text)
        log = [(seq, data.decode()) for seq, data in await site.log(RunId(run))]
        assert plain == log
        stream = (await site.request("GET", f"{path}?snapshots=true")).text
        assert frames(stream) == frames(posted)
        assert [each for each in frames(stream) if '"MESSAGES_SNAPSHOT"' not in each[1]] == log
        for index, (seq, data) in enumerate(frames(stream)):
            if '"MESSAGES_SNAPSHOT"' in data:
                before = frames(stream)[index - 1]
                assert (before[0], "holdfast.abandoned" in before[1]) == (seq, True)
        assert (await apply(driver, stream)).said == ["user: go", "assistant: the whole"]


async def test_a_stream_that_was_cut_before_a_snapshot_resumes_with_it(driver: Driver, tmp_path: Path) -> None:
    async with abandoning_site(tmp_path, say("half of")) as site:
        run, _ = await recovered_stream(site)
        path = f"/api/runs/{run}/sse?snapshots=true"
        whole = (await site.request("GET", path)).text
        at = next(index for index, (_, data) in enumerate(frames(whole)) if '"MESSAGES_SNAPSHOT"' in data)
        seq = frames(whole)[at][0]
        resumed = (await site.request("GET", path, headers={"Last-Event-ID": str(seq)})).text
        assert frames(resumed) == frames(whole)[at:]
        later = (await site.request("GET", f"{path}&last_event_id={seq + 1}")).text
        assert frames(later) == frames(whole)[at + 2 :]


async def test_a_native_stream_begins_with_the_state_of_its_branch(site: Site, driver: Driver) -> None:
    first = await (await driver.on(site, state={"count": 3})).say("hi")
    thread = first.events[0]["threadId"]
    run, posted = await start_native_stream(site, thread)
    assert (await apply(driver, posted)).state == {"count": 3}
    path = f"/api/runs/{run}/sse?snapshots=true"
    for query in ("", "&last_event_id=1"):
        stream = (await site.request("GET", path + query)).text
        assert [data for seq, data in frames(stream) if seq == 1][-1].startswith('{"type":"STATE_SNAPSHOT"')
    assert "STATE_SNAPSHOT" not in (await site.request("GET", f"/api/runs/{run}/sse")).text
    fresh, stream = await start_native_stream(site, await site.thread())
    assert "STATE_SNAPSHOT" not in stream


async def test_snapshots_are_true_or_false(site: Site) -> None:
    run, stream = await start_native_stream(site, await site.thread())
    refused = await site.get(f"/api/runs/{run}/sse?snapshots=some", expect=400)
    assert refused["error"]["details"]["field"] == "snapshots"
    assert (await site.get("/api/runs/nowhere/sse?snapshots=true", expect=404))["error"]["code"] == "NOT_FOUND"
    unchanged = (await site.request("GET", f"/api/runs/{run}/sse?snapshots=false")).text
    assert frames(unchanged) == frames(stream)
