"""A server with something of everything in it, made over HTTP: what an explorer cannot guess."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen
from uuid import uuid4

from holdfast.domain.content import Json
from tests.api.conftest import fill
from tests.api.serving import LIMIT, Server, serving
from tests.scenario.agents.agent_workspace import STAND_IN, AgentWorkspace

AGENTS: Final = ("bot", "failing", "worker", "writer", "parent")
"""Agents whose runs come to an end by themselves."""
MODEL: Final = STAND_IN

Place = dict[str, Json]
"""Ids that belong together, by the parameters that they are put into; `item` is a `task_id` of the native API."""


@contextmanager
def furnished(folder: Path) -> Iterator[tuple[Server, str]]:
    """Serve a workspace with scripted agents to those who have the key, which is yielded too."""
    workshop = fill(AgentWorkspace(folder / "workspace", folder / "holdfast.db"))
    with _provider() as url:
        workshop.write("settings.json", {"providers": {"local": {"api": "openai", "base_url": url}}})
        with serving(folder, "--quiet") as server:
            root = server.ask("/api/keys", {"name": "root", "scope": "admin", "every_space": True})
            yield server, root["secret"]


class Furniture:
    """What there is in the space `default`, and more of it for those who use it up."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key
        self.file: str = self.upload()["file_id"]
        self.running = self._started("staller")
        self.waiting = self._asked()
        self.ended = [self._lived_in(agent) for agent in (*AGENTS, "planner")]
        self._fresh: Final[Mapping[str, Callable[[], Place]]] = {
            "create_run": self._thread,
            "delete_thread": self._thread,
            "update_thread": self._thread,
            "archive_thread": self._thread,
            "unarchive_thread": self._archived,
            "cancel_run": self._asked,
            "respond": self._asked,
            "retry_run": lambda: self._played("failing"),
            "cancel_session": self._asked,
            "delete_session": lambda: self._played("bot"),
            "cancel_task": lambda: self._task("asker"),
            "respond_to_task": lambda: self._task("asker"),
            "delete_task": lambda: self._task("bot"),
            "delete_file": self.upload,
            "delete_space": self._space,
            "update_space": self._space,
            "revoke_key": self._another_key,
        }

    def fresh(self, operation: str) -> Place | None:
        """Make something that an operation may use up, if it uses up what it is done to."""
        make = self._fresh.get(operation.removesuffix("_in_space"))
        return None if make is None else {"space_id": "default", **make()}

    def upload(self) -> Place:
        """Upload a file."""
        return {"file_id": self._send("/api/files?name=a.txt", b"hello", kind="text/plain")["id"]}

    def _send(self, path: str, body: Json = None, *, kind: str = "application/json") -> Json:
        headers = {"Content-Type": kind, "Authorization": f"Bearer {self._key}"}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with urlopen(Request(self._url + path, data=data, headers=headers), timeout=LIMIT) as answer:
            return json.load(answer)

    def _thread(self, agent: str = "bot") -> Place:
        thread = self._send("/api/threads", {"agent_type": agent, "title": "made before"})["id"]
        return {"space_id": "default", "thread_id": thread, "session_id": thread}

    def _archived(self) -> Place:
        place = self._thread()
        self._send(f"/api/threads/{place['thread_id']}/archive", b"")
        return place

    def _started(self, agent: str, *, wait: int = 0) -> Place:
        place = self._thread(agent)
        run: str = self._send(f"/api/threads/{place['thread_id']}/runs?wait={wait}", {"input": "go"})["id"]
        return {**place, "run_id": run}

    def _played(self, agent: str) -> Place:
        return self._started(agent, wait=LIMIT)

    def _asked(self) -> Place:
        return self._started("asker", wait=LIMIT)

    def _task(self, agent: str) -> Place:
        task = self._send(f"/agents/{agent}/task", {"input": "go"})["taskId"]
        while self._send(f"/tasks/{task}")["task"]["status"] in ("pending", "processing"):
            pass
        return {"task_id": task}

    def _lived_in(self, agent: str) -> Place:
        place = self._played(agent)
        thread, run = place["thread_id"], place["run_id"]
        body = {"type": "doc", "title": "notes", "content": "# notes"}
        artifact = self._send(f"/api/runs/{run}/artifacts", body)["id"]
        item = self._send(f"/api/threads/{thread}/tasks", {"title": "bake", "subtasks": [{"title": "mix"}]})["task_id"]
        more = {"artifact_id": artifact, "name": agent, "file_id": self.file, "item": item}
        return {**place, **self._task(agent), **more}

    def _space(self) -> Place:
        return {"space_id": self._send("/api/spaces", {"id": f"space-{uuid4().hex}"})["id"]}

    def _another_key(self) -> Place:
        return {"key_id": self._send("/api/keys", {"name": "another", "scope": "read", "every_space": True})["id"]}


@contextmanager
def _provider() -> Iterator[str]:
    """Yield the address of a stand-in for a provider."""
    command = (sys.executable, "-m", "holdfast.testing.openai_server")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
