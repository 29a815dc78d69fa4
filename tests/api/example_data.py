"""A server with objects of every kind, created over HTTP, for requests that need existing ids."""

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
from tests.api.conftest import write_agents
from tests.api.server_process import TIMEOUT_SECONDS, Server, run_server
from tests.scenario.agents.agent_workspace import STAND_IN, AgentWorkspace

AGENTS: Final = ("bot", "failing", "worker", "writer", "parent")
"""Agents whose runs end by themselves."""
MODEL: Final = STAND_IN

Ids = dict[str, Json]
"""Ids of related objects by path parameter; `item` is a `task_id` of the native API."""


@contextmanager
def serve_with_key(folder: Path) -> Iterator[tuple[Server, str]]:
    """Serve a workspace with scripted agents, and yield the server and an admin key."""
    workshop = write_agents(AgentWorkspace(folder / "workspace", folder / "holdfast.db"))
    with _provider() as url:
        workshop.write("settings.json", {"providers": {"local": {"api": "openai", "base_url": url}}})
        with run_server(folder, "--quiet") as server:
            root = server.request("/api/keys", {"name": "root", "scope": "admin", "every_space": True})
            yield server, root["secret"]


class ExampleData:
    """Objects in the space `default`, and new ones for operations that consume them."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key
        self.file: str = self.upload()["file_id"]
        self.running = self._start_run("staller")
        self.waiting = self._waiting_run()
        self.ended = [self._run_with_objects(agent) for agent in (*AGENTS, "planner")]
        self._fresh: Final[Mapping[str, Callable[[], Ids]]] = {
            "create_run": self._new_thread,
            "delete_thread": self._new_thread,
            "update_thread": self._new_thread,
            "archive_thread": self._new_thread,
            "unarchive_thread": self._archived_thread,
            "cancel_run": self._waiting_run,
            "respond": self._waiting_run,
            "retry_run": lambda: self._ended_run("failing"),
            "cancel_session": self._waiting_run,
            "delete_session": lambda: self._ended_run("bot"),
            "cancel_task": lambda: self._settled_task("asker"),
            "respond_to_task": lambda: self._settled_task("asker"),
            "delete_task": lambda: self._settled_task("bot"),
            "delete_file": self.upload,
            "delete_space": self._new_space,
            "update_space": self._new_space,
            "revoke_key": self._new_key,
        }

    def fresh(self, operation: str) -> Ids | None:
        """Create new objects for an operation that consumes them; return `None` for the others."""
        create = self._fresh.get(operation.removesuffix("_in_space"))
        return None if create is None else {"space_id": "default", **create()}

    def upload(self) -> Ids:
        """Upload a file."""
        return {"file_id": self._send("/api/files?name=a.txt", b"hello", kind="text/plain")["id"]}

    def _send(self, path: str, body: Json = None, *, kind: str = "application/json") -> Json:
        headers = {"Content-Type": kind, "Authorization": f"Bearer {self._key}"}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with urlopen(Request(self._url + path, data=data, headers=headers), timeout=TIMEOUT_SECONDS) as response:
            return json.load(response)

    def _new_thread(self, agent: str = "bot") -> Ids:
        thread = self._send("/api/threads", {"agent_type": agent, "title": "made before"})["id"]
        return {"space_id": "default", "thread_id": thread, "session_id": thread}

    def _archived_thread(self) -> Ids:
        ids = self._new_thread()
        self._send(f"/api/threads/{ids['thread_id']}/archive", b"")
        return ids

    def _start_run(self, agent: str, *, wait: int = 0) -> Ids:
        ids = self._new_thread(agent)
        run: str = self._send(f"/api/threads/{ids['thread_id']}/runs?wait={wait}", {"input": "go"})["id"]
        return {**ids, "run_id": run}

    def _ended_run(self, agent: str) -> Ids:
        return self._start_run(agent, wait=TIMEOUT_SECONDS)

    def _waiting_run(self) -> Ids:
        return self._start_run("asker", wait=TIMEOUT_SECONDS)

    def _settled_task(self, agent: str) -> Ids:
        task = self._send(f"/agents/{agent}/task", {"input": "go"})["taskId"]
        while self._send(f"/tasks/{task}")["task"]["status"] in ("pending", "processing"):
            pass
        return {"task_id": task}

    def _run_with_objects(self, agent: str) -> Ids:
        ids = self._ended_run(agent)
        thread, run = ids["thread_id"], ids["run_id"]
        body = {"type": "doc", "title": "notes", "content": "# notes"}
        artifact = self._send(f"/api/runs/{run}/artifacts", body)["id"]
        item = self._send(f"/api/threads/{thread}/tasks", {"title": "bake", "subtasks": [{"title": "mix"}]})["task_id"]
        others = {"artifact_id": artifact, "name": agent, "file_id": self.file, "item": item}
        return {**ids, **self._settled_task(agent), **others}

    def _new_space(self) -> Ids:
        return {"space_id": self._send("/api/spaces", {"id": f"space-{uuid4().hex}"})["id"]}

    def _new_key(self) -> Ids:
        return {"key_id": self._send("/api/keys", {"name": "another", "scope": "read", "every_space": True})["id"]}


@contextmanager
def _provider() -> Iterator[str]:
    """Run a stub of a model provider, and yield its URL."""
    command = (sys.executable, "-m", "holdfast.testing.openai_server")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
