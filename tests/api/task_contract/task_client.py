"""A client of the tasks contract that can also read the runs of its tasks from the store."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import httpx2
import msgspec

from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.events import RunFinished
from holdfast.domain.ids import RunId
from holdfast.domain.run import Run, RunStatus
from tests.api.site import TIMEOUT_SECONDS, Site
from tests.api.streams.readers import Frame, SseReader, sse
from tests.builders import FIRST
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say

TERMINAL_STATUSES: Final = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)
HOUR: Final = timedelta(hours=1)
SETTLED_STATUSES: Final = (RunStatus.WAITING, *TERMINAL_STATUSES)


def fill(workshop: AgentWorkspace) -> AgentWorkspace:
    """Write the agents of the tasks."""
    workshop.agent(say("hello you", usage={"input_tokens": 7, "output_tokens": 2}))
    workshop.agent({"error": {"code": "MODEL_REFUSED", "message": "no"}}, name="failing")
    workshop.agent(say("one moment", stall=True), name="staller")
    workshop.agent(calling(call("ask_user", question="which?")), say("it is {$last_tool}"), name="asker", tools=_ASK)
    choice = call("ask_user", question="which?", options=["red", "blue"])
    workshop.agent(calling(choice), say("it is {$last_tool}"), name="chooser", tools=_ASK)
    both = calling(call("ask_user", question="first?"), call("ask_user", question="second?"))
    workshop.agent(both, say("both"), name="curious", tools=_ASK)
    workshop.agent(calling(call("task_respond", message="done?")), say("{$last_tool}"), name="responder", tools=_TELL)
    good, bad = call("todo_write", items=[{"text": "x"}]), call("todo_write", nonsense=True)
    spent = {"input_tokens": 10, "output_tokens": 5}
    workshop.agent(
        calling(good, usage=spent), calling(bad, usage=spent), say("did", usage=spent), name="worker", tools=_DO
    )
    workshop.agent(calling(call("sleep", seconds=3600)), say("awake"), name="sleeper", tools=["sleep"])
    workshop.agent(calling(call("agent_spawn", agent="bot", input="help")), say("helped"), name="parent", tools=_SPAWN)
    workshop.agent(calling(call("agent_spawn", agent="asker", input="x")), say("ok"), name="proxy", tools=_SPAWN)
    workshop.agent(calling(call("task_create", agent="staller", input="x")), say("left"), name="starter", tools=_MAKE)
    workshop.agent(calling(call("task_create", agent="asker", input="x")), say("left"), name="leaver", tools=_MAKE)
    workshop.agent(calling(good), say("{$last_tool}"), name="guarded", tools=_DO, permissions={"ask": ["todo_write"]})
    bounds: dict[str, Json] = {"max_iterations": 3, "max_duration_seconds": 60, "token_budget": 1000}
    workshop.agent(say("x"), name="bounded", limits=bounds)
    silent: dict[str, Json] = {"command": "sleep", "args": ["60"], "sandbox": "off"}
    workshop.agent(say("x"), name="patient", tools=["mcp__silent__any"], mcp_servers={"silent": silent})
    workshop.agent(say("no tasks"), name="talker", task={"enabled": False})
    workshop.agent(say("helped anyway"), name="unsaid", task={})
    workshop.agent(calling(call("agent_spawn", agent="unsaid", input="x")), say("ok"), name="lender", tools=_SPAWN)
    costly = {"input_tokens": 6, "output_tokens": 4}
    workshop.agent(
        calling(call("agent_spawn", agent="bot", input="x")), say("ok", usage=costly), name="spender", tools=_SPAWN
    )
    status, told = (
        call("task_status", task_id="{$last_user}"),
        call("task_subscribe", task_id="{$last_user}", wait=True),
    )
    workshop.agent(calling(status), say("{$last_tool}"), name="checker", tools=["task_status"])
    workshop.agent(calling(told), say("{$last_tool}"), name="subscriber", tools=["task_subscribe"])
    workshop.agent(name="broken", model=7)
    return workshop


_ASK: Final[list[Json]] = ["ask_user"]
_TELL: Final[list[Json]] = ["task_respond"]
_DO: Final[list[Json]] = ["todo_write"]
_SPAWN: Final[list[Json]] = ["agent_spawn"]
_MAKE: Final[list[Json]] = ["task_create"]


class TaskClient:
    """Creates, reads and follows tasks."""

    def __init__(self, site: Site) -> None:
        self.site = site

    async def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request."""
        return await self.site.request(method, path, **options)

    async def create(self, agent: str = "bot", input: str = "go", **more: Json) -> str:
        """Create a task, and return its id."""
        body = await self.site.post(f"/agents/{agent}/task", {"input": input, **more}, expect=202)
        name: str = body["taskId"]
        return name

    async def run_to_end(self, agent: str = "bot", **more: Json) -> str:
        """Create a task, wait until it has ended, and return its id."""
        return await self.wait_for_status(await self.create(agent, **more), *TERMINAL_STATUSES)

    async def run_to_interrupt(self, agent: str = "asker") -> str:
        """Create a task, wait until it has an open interrupt, and return its id."""
        return await self.wait_for_status(await self.create(agent), *SETTLED_STATUSES)

    async def run_to_child_interrupt(self, agent: str = "proxy") -> str:
        """Create a task, wait until it shows an interrupt of its child, and return its id."""
        task = await self.create(agent)
        await self.site.floor.wait_for_event(await self.run(task), lambda event: isinstance(event, RunFinished))
        return task

    async def wait_for_status(self, task: str, *statuses: RunStatus) -> str:
        """Wait until the run of a task is in one of these statuses."""
        await self.site.floor.wait_for_status(await self.run(task), *statuses)
        return task

    async def wait_for_text(self, task: str) -> str:
        """Wait until a task has streamed text."""
        await self.site.floor.wait_for_event(
            await self.run(task), lambda event: type(event).__name__ == "TextMessageContent"
        )
        return task

    async def run(self, task: str) -> Run:
        """Return the run of a task."""
        return await self.site.store.runs.get(SPACE, run_of(task))

    async def claim(self, task: str) -> Lease:
        """Claim the run of a task; the server must have no workers."""
        leases = await self.site.store.leases.claim(FIRST, lease=HOUR, limit=1000)
        return next(lease for lease in leases if lease.run_id == run_of(task))

    async def read(self, task: str) -> Json:
        """Return a task."""
        return (await self.site.get(f"/tasks/{task}"))["task"]

    async def events(self, task: str, **query: Json) -> list[Json]:
        """Return the events of a task."""
        found: list[Json] = (await self.site.get(f"/tasks/{task}/events", **query))["events"]
        return found

    async def list_ids(self, **query: Json) -> list[str]:
        """Return the ids of a page of tasks."""
        return [task["id"] for task in (await self.site.get("/tasks", **query))["tasks"]]

    @asynccontextmanager
    async def stream(self, task: str, *, after: int | None = None) -> AsyncIterator[SseReader]:
        """Open the stream of a task."""
        async with sse(self.site.host, f"/tasks/{task}/stream", after=after) as stream:
            yield stream

    async def read_stream(self, task: str, *, after: int | None = None) -> list[Frame]:
        """Return all frames of the stream of a task."""
        async with asyncio.timeout(TIMEOUT_SECONDS), self.stream(task, after=after) as stream:
            return await stream.rest()


def run_of(task: str) -> RunId:
    """Return the run id of a task."""
    return RunId(task.replace("task_", "run_", 1))


def read_frames(frames: Sequence[Frame], event: str = "task") -> list[Json]:
    """Return the decoded data of the frames with an event name."""
    return [msgspec.json.decode(frame.data or b"") for frame in frames if frame.event == event]


def check_error(response: Any, status: int, code: str) -> Json:
    """Check that a response is an error in the common envelope, and return the error."""
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json"), response.text
    (error,) = response.json().values()
    assert set(error) == {"code", "message", "details"}
    assert error["code"] == code, error
    assert error["message"] and error["message"][0] == error["message"][0].lower()
    return error
