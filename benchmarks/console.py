"""Frame times of the console in a real browser: a long thread that scrolls, and one whose last answer is written."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.table import Table
from holdfast.console.shelf import STATIC_FOLDER

RUNS: Final = 12
TURNS_PER_RUN: Final = 420
FRAME_LIMIT_MS: Final = 34
_FRAMES: Final = """({seconds, pixels}) => new Promise(done => {
    const box = document.querySelector('.log'), times = [];
    let last = performance.now(); const end = last + seconds * 1000;
    requestAnimationFrame(function frame(now) {
        times.push(now - last); last = now
        if (pixels) box.scrollTop -= pixels
        if (now < end) requestAnimationFrame(frame)
        else done({times: times.slice(1), nodes: document.querySelectorAll('*').length,
                   heap: performance.memory.usedJSHeapSize / 1e6})
    })
})"""
_AGENTS: Final[dict[str, Any]] = {
    "echo": {"turns": [{"say": "{$last_user}"}], "after_last": "repeat"},
    "writer": {"turns": [{"say": "word " * 4000, "chunks": 4000, "delay_ms": 5}], "after_last": "repeat"},
}


async def measure(*, seconds: float) -> list[Table]:
    """Measure, unless there is no browser or no build of the console."""
    chromium = shutil.which("chromium")
    columns = ["what", "frames", "p50 ms", "p95 ms", f"longer than {FRAME_LIMIT_MS} ms", "elements", "heap MB"]
    table = Table(f"console: a thread of {RUNS * TURNS_PER_RUN * 2:,} messages", columns)
    if chromium is None or not (STATIC_FOLDER / "index.html").is_file():
        table.add("not measured: `make console browser` first", *[""] * (len(columns) - 1))
        return [table]
    with tempfile.TemporaryDirectory() as folder, _serve(Path(folder)) as url:
        async with httpx.AsyncClient(base_url=url, timeout=120) as client, _page(chromium) as page:
            thread = await _long_thread(client)
            await page.goto(f"{url}/console/t/{thread}")
            await page.wait_for_selector(".entry")
            _add(table, "scrolling", await page.evaluate(_FRAMES, {"seconds": seconds, "pixels": 60}))
            await client.post(f"/api/threads/{thread}/runs", json={"input": "go", "agent_type": "writer"})
            await page.wait_for_selector("header .live.state")
            await page.keyboard.press("End")
            _add(table, "200 tokens a second", await page.evaluate(_FRAMES, {"seconds": seconds, "pixels": 0}))
    return [table]


def _add(table: Table, what: str, found: dict[str, Any]) -> None:
    times = sorted(found["times"])
    slow = sum(time > FRAME_LIMIT_MS for time in times)
    table.add(
        what,
        len(times),
        times[len(times) // 2],
        times[int(len(times) * 0.95)],
        slow,
        int(found["nodes"]),
        float(found["heap"]),
    )


async def _long_thread(client: httpx.AsyncClient) -> str:
    """Return a thread of many messages."""
    said = [{"content": f"message {at}", "role": role} for at in range(TURNS_PER_RUN) for role in ("user", "assistant")]
    body = {"messages": [*said, {"content": "x"}], "agent_type": "echo"}
    run = (await client.post("/api/runs", params={"wait": 60}, json=body)).raise_for_status().json()
    for _ in range(RUNS - 1):
        address = f"/api/threads/{run['thread_id']}/runs"
        run = (await client.post(address, params={"wait": 60}, json=body)).raise_for_status().json()
    return str(run["thread_id"])


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    for name, script in _AGENTS.items():
        agent = folder / "agents" / name
        agent.mkdir(parents=True)
        (agent / "AGENT.md").write_text("Do as you are told.")
        (agent / "agent.json").write_text('{"model": "scripted:script.json"}')
        (agent / "script.json").write_text(json.dumps(script))
    (folder / "settings.json").write_text("{}")
    command = [
        sys.executable,
        "-m",
        "holdfast.cli",
        "serve",
        "--workspace",
        str(folder),
        "--port",
        "0",
        "--json",
        "--quiet",
    ]
    environment = os.environ | {"NO_COLOR": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield str(json.loads(process.stdout.readline())["url"])
        finally:
            process.terminate()


@asynccontextmanager
async def _page(chromium: str) -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]
        browser = await playwright.chromium.launch(executable_path=chromium, args=options)
        yield await browser.new_page(viewport={"width": 1280, "height": 900})
        await browser.close()
