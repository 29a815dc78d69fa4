"""The example clients of the contract's documentation work unchanged."""

import asyncio
import re
import shutil
from pathlib import Path
from typing import Final

import httpx2
import pytest

from holdfast.domain.content import Json
from tests.api.site import TIMEOUT_SECONDS
from tests.api.task_contract.task_client import SETTLED_STATUSES, TaskClient, read_frames

TERMINAL: Final = ("finished", "failed", "canceled")
PAGE_STREAM: Final = Path(__file__).with_name("page_stream.mjs")

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="runs the page's JavaScript")


async def test_a_client_creates_follows_responds_cancels_and_deletes(any_client: TaskClient) -> None:
    base = any_client.site.url
    async with httpx2.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False) as http:
        body = {
            "input": "Read package.json and tell me the dependencies",
            "priority": "normal",
            "tags": ["audit", "deps"],
            "maxIterations": 15,
            "maxDurationSeconds": 60,
        }
        created = await http.post(f"{base}/agents/asker/task", json=body)
        assert created.status_code == 202
        task = created.json()["taskId"]
        assert created.json() == {"taskId": task, "status": "pending"}

        polled = await _poll(http, base, task)
        assert polled["status"] == "waiting"
        response = await http.post(f"{base}/tasks/{task}/respond", json={"message": "The response is 42"})
        assert (response.status_code, response.json()) == (200, {"taskId": task, "status": "processing"})
        assert (await _follow(any_client, task))[-1] == "closed by task.status"
        polled = await _poll(http, base, task)
        assert (polled["status"], polled["output"]) == ("finished", "it is The response is 42")

        gone = await http.delete(f"{base}/tasks/{task}")
        assert (gone.status_code, gone.json()) == (200, {"deleted": True, "taskId": task})
        assert (await http.get(f"{base}/tasks/{task}")).status_code == 404

        running = (await http.post(f"{base}/agents/staller/task", json={"input": "x"})).json()["taskId"]
        cancelled = await http.post(f"{base}/tasks/{running}/cancel")
        assert (cancelled.status_code, cancelled.json()) == (200, {"taskId": running, "status": "canceled"})
        forced = (await http.post(f"{base}/agents/staller/task", json={"input": "x"})).json()["taskId"]
        gone = await http.delete(f"{base}/tasks/{forced}?force=true")
        assert (gone.status_code, gone.json()) == (200, {"deleted": True, "taskId": forced})


async def test_polled_events_name_each_tool_call_once(client: TaskClient) -> None:
    task = await client.create("worker")
    seen, said = set[int](), list[str]()
    async with httpx2.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False) as http:
        while not said or said[-1] not in TERMINAL:
            status = (await http.get(f"{client.site.url}/tasks/{task}")).json()["task"]["status"]
            for event in (await http.get(f"{client.site.url}/tasks/{task}/events")).json()["events"]:
                if event["id"] in seen:
                    continue
                seen.add(event["id"])
                if event["type"] == "tool.start":
                    said.append(event["data"]["toolName"])
                if event["type"] == "tool.end":
                    assert isinstance(event["data"]["durationMs"], int)
                    said.append("done")
            if status in TERMINAL:
                said.append(status)
    assert said == ["todo_write", "done", "todo_write", "done", "finished"]


@needs_node
async def test_the_documented_javascript_runs_unchanged(client: TaskClient) -> None:
    said = await _node("--input-type=module", "-e", PAGE_SCRIPT % {"base": client.site.url})
    lines = re.sub(r"\d+ms", "some ms", said).splitlines()
    assert lines == ["🔧 todo_write", "   ✓ some ms", "🔧 todo_write", "   ✓ some ms", "did"]


@needs_node
async def test_the_documented_event_source_closes_when_the_task_ends(client: TaskClient) -> None:
    ended = await _node(PAGE_STREAM, f"{client.site.url}/tasks/{await client.run_to_end('worker')}/stream")
    calls = ["Tool call: todo_write", "Tool call: todo_write"]
    assert ended.splitlines() == [*calls, "Current status: finished", "closed, opened 1"]
    task = await client.run_to_interrupt()
    async with asyncio.TaskGroup() as tasks:
        live = tasks.create_task(_node(PAGE_STREAM, f"{client.site.url}/tasks/{task}/stream"))
        await client.site.post(f"/tasks/{task}/respond", {"message": "x"}, expect=200)
    first, status, last = live.result().splitlines()
    assert (first, status.startswith("Current status: "), last) == ("Tool call: ask_user", True, "closed, opened 1")


async def _node(*arguments: str | Path) -> str:
    """Run a Node program, and return its output."""
    node = await asyncio.create_subprocess_exec("node", *arguments, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        said, _ = await node.communicate()
    assert node.returncode == 0
    return said.decode()


async def _poll(http: httpx2.AsyncClient, base: str, task: str) -> Json:
    """Poll like `pollTask` of the page."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            found = (await http.get(f"{base}/tasks/{task}")).json()["task"]
            if found["status"] in (*TERMINAL, "waiting"):
                return found


async def _follow(client: TaskClient, task: str) -> list[str]:
    """Follow a task like the `EventSource` example of the page."""
    said = []
    async with client.stream(task) as stream:
        async for frame in stream.events():
            event = read_frames([frame], frame.event or "")[0]
            if frame.event == "status":
                said.append(f"current status: {event['status']}")
                continue
            inner = event.get("event", {})
            if event["type"] == "tool.start" or inner.get("type") == "tool.start":
                said.append(f"tool call: {event.get('data', {}).get('toolName') or inner.get('toolName')}")
            if event["type"] == "task.status" and inner.get("status") in TERMINAL:
                said.append("closed by task.status")
                break
    return said


async def test_the_documented_stream_example_logs_tool_calls_and_status(client: TaskClient) -> None:
    task = await client.run_to_end("worker")
    calls = ["tool call: todo_write", "tool call: todo_write"]
    assert await _follow(client, task) == [*calls, "current status: finished", "closed by task.status"]
    task = await client.wait_for_status(await client.create("asker"), *SETTLED_STATUSES)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(_follow(client, task))
        await client.site.post(f"/tasks/{task}/respond", {"message": "x"}, expect=200)
    assert following.result()[0] == "tool call: ask_user"
    assert following.result()[-1] == "closed by task.status"


# The page's "Polling Pattern" and "Live Tool Event Streaming"; with another agent and a shorter pause.
PAGE_SCRIPT: Final = """
async function pollTask(baseUrl, taskId, timeoutMs = 120000) {
  const deadline = Date.now() + timeoutMs;
  while (Date.now() < deadline) {
    await new Promise(r => setTimeout(r, 100));
    const res = await fetch(`${baseUrl}/tasks/${taskId}`);
    const { task } = await res.json();
    if (['finished', 'failed', 'canceled', 'waiting'].includes(task.status)) {
      return task;
    }
  }
  throw new Error('Task timed out');
}

let seenIds = new Set();

async function checkEvents(baseUrl, taskId) {
  const { events } = await fetch(`${baseUrl}/tasks/${taskId}/events`).then(r => r.json());
  for (const ev of events) {
    if (seenIds.has(ev.id)) continue;
    seenIds.add(ev.id);
    if (ev.type === 'tool.start') console.log(`🔧 ${ev.data.toolName}`);
    if (ev.type === 'tool.end') console.log(`   ✓ ${ev.data.durationMs}ms`);
  }
}

const { taskId } = await fetch('%(base)s/agents/worker/task', {
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ input: 'Summarise README.md' }),
}).then(r => r.json());

const task = await pollTask('%(base)s', taskId);
await checkEvents('%(base)s', taskId);
await checkEvents('%(base)s', taskId);
console.log(task.output);
"""
