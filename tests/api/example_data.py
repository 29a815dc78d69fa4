"""A server with objects of every kind, created over HTTP, for requests that need existing ids."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen
from uuid import uuid4

from holdfast.domain.content import Json
from tests.api.conftest import write_agents
from tests.api.server_process import TIMEOUT_SECONDS, Server, run_server
from tests.scenario.agents.agent_workspace import STAND_IN, AgentWorkspace, say

AGENTS: Final = ("bot", "failing", "worker", "writer", "parent")
"""Agents whose runs end by themselves."""
MODEL: Final = STAND_IN
DAEMON: Final = "daemon"
"""An agent with a heartbeat."""
ENTITY: Final = "Ann"
"""The entity of a memory."""

Ids = dict[str, Json]
"""Ids of related objects by path parameter; `item` is a `task_id` of the native API."""


AGENT: Final[Json] = {
    "settings": {"model": "scripted:script.json"},
    "instructions": "Say hello.",
    "scripts": {"script.json": {"turns": [{"say": "hello"}]}},
}
"""The definition of an agent of a space."""


@contextmanager
def serve_with_key(folder: Path) -> Iterator[tuple[Server, str]]:
    """Serve a workspace with scripted agents, and yield the server and an admin key."""
    workshop = write_agents(AgentWorkspace(folder / "workspace", folder / "holdfast.db"))
    workshop.write(f"agents/{DAEMON}/heartbeats/yearly.md", "Say hello.")
    heartbeat = {"name": "yearly", "schedule": "0 0 1 1 *"}
    workshop.agent(say("hello"), name=DAEMON, daemon={"enabled": True, "heartbeats": [heartbeat]})
    with _provider() as url:
        providers = {"local": {"api": "openai", "base_url": url}}
        workshop.write("settings.json", {"providers": providers, "web": {"allow_private": ["127.0.0.1"]}})
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
        self.branches = self._two_branches()
        self.ended = [self._run_with_objects(agent) for agent in (*AGENTS, "planner")]
        kept = {**self._new_memory(), **self._new_schedule(), **self._new_reminder(), **self._new_webhook()}
        kept |= self._new_skill()
        self.ended = [{**ids, **kept, **self._new_memory_file()} for ids in self.ended]
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
            "revoke_grant": self._grant,
            "update_memory": self._new_memory,
            "forget_memory": self._new_memory,
            "supersede_memory": self._new_memory,
            "accept_memory": self._new_memory,
            "retract_memory": self._new_memory,
            "delete_memory_file": self._new_memory_file,
            "delete_memory_file_of_agent": self._new_memory_file,
            **dict.fromkeys(
                [f"{verb}_{kind}" for verb in ("replace", "update", "delete") for kind in ("agent", "contract_agent")],
                self._new_agent,
            ),
            "update_skill": self._new_skill,
            "delete_skill": self._new_skill,
            "update_schedule": self._new_schedule,
            "delete_schedule": self._new_schedule,
            "deliver_hook": self._new_schedule,
            **dict.fromkeys(
                [f"{verb}_reminder" for verb in ("update", "delete", "trigger", "snooze", "complete", "dismiss")],
                self._new_reminder,
            ),
            "update_webhook": self._new_webhook,
            "delete_webhook": self._new_webhook,
            "resend_delivery": self._new_webhook,
            **dict.fromkeys(("read_daemon", "start_daemon", "stop_daemon", "trigger_daemon"), lambda: {"name": DAEMON}),
        }

    def fresh(self, operation: str) -> Ids | None:
        """Create new objects for an operation that consumes them; return `None` for the others."""
        create = self._fresh.get(operation.removesuffix("_in_space"))
        return None if create is None else {"space_id": "default", **create()}

    def upload(self) -> Ids:
        """Upload a file."""
        return {"file_id": self._send("/api/files?name=a.txt", b"hello", kind="text/plain")["id"]}

    def exported_memory(self) -> bytes:
        """Return a memory in the format of exports, with a new id."""
        record = {"memory": self._send(f"/api/memories/{self._new_memory()['memory_id']}")}
        record["memory"]["id"] = f"mem_{uuid4().hex}"
        return json.dumps(record).encode()

    def exported_skill(self) -> bytes:
        """Return the archive of a skill."""
        path = f"/api/skills/{self._new_skill()['skill_id']}/export"
        with urlopen(Request(self._url + path, headers={"Authorization": f"Bearer {self._key}"})) as response:
            return bytes(response.read())

    def _send(self, path: str, body: Json = None, *, kind: str = "application/json", method: str | None = None) -> Json:
        headers = {"Content-Type": kind, "Authorization": f"Bearer {self._key}"}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with urlopen(
            Request(self._url + path, data=data, headers=headers, method=method), timeout=TIMEOUT_SECONDS
        ) as response:
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

    def _two_branches(self) -> Ids:
        """Return a thread and the two runs `a` and `b` on it, each of which starts a branch."""
        ids = self._ended_run("bot")
        body = {"input": "go", "base_run_id": None}
        other = self._send(f"/api/threads/{ids['thread_id']}/runs?wait={TIMEOUT_SECONDS}", body)
        return {**ids, "a": ids["run_id"], "b": other["id"]}

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
        body = {"type": "doc", "title": "notes", "content": "<h1>notes</h1>", "media_type": "text/html"}
        artifact = self._send(f"/api/runs/{run}/artifacts", body)["id"]
        item = self._send(f"/api/threads/{thread}/tasks", {"title": "bake", "subtasks": [{"title": "mix"}]})["task_id"]
        message = self._send(f"/api/threads/{thread}/messages")["items"][0]["id"]
        version = self._send(f"/api/agents/{agent}/versions")["items"][0]["digest"]
        others = {
            "digest": version,
            "artifact_id": artifact,
            "name": agent,
            "file_id": self.file,
            "item": item,
            "message_id": message,
        }
        return {**ids, **self._settled_task(agent), **others}

    def _new_memory_file(self) -> Ids:
        ids = {"agent": "bot", "path": f"{uuid4().hex}.md"}
        for path in (f"/memory/{ids['path']}", f"/memory/agents/bot/{ids['path']}"):
            self._send(path, {"text": "- hello"}, method="PUT")
        return ids

    def _new_memory(self) -> Ids:
        body = {"text": f"memory {uuid4().hex}", "entities": [{"label": ENTITY}]}
        return {"memory_id": self._send("/api/memories", body)["id"]}

    def _new_skill(self) -> Ids:
        body = {"name": f"skill-{uuid4().hex}", "description": "d", "instructions": "i"}
        return {"skill_id": self._send("/api/skills", body)["id"]}

    def _new_agent(self) -> Ids:
        return {"name": self._send("/api/agents", {"name": uuid4().hex, **AGENT})["name"]}

    def _new_schedule(self) -> Ids:
        body = {"cron": "0 0 1 1 *", "action": {"type": "notify", "message": "new year"}, "hook": True}
        made = self._send("/api/schedules", body)
        return {"schedule_id": made["id"], "token": made["hook_token"]}

    def _new_reminder(self) -> Ids:
        body = {"content": "new year", "trigger_type": "time", "trigger_value": "0 0 1 1 *"}
        return {"reminder_id": self._send("/api/reminders", body)["id"]}

    def _new_webhook(self) -> Ids:
        """Create a webhook that nothing answers, and wait for its delivery of a reminder."""
        body = {"url": "http://127.0.0.1:1024/", "events": ["reminder.triggered"]}
        webhook = self._send("/api/webhooks", body)["id"]
        reminder = self._new_reminder()["reminder_id"]
        self._send(f"/api/reminders/{reminder}/trigger", b"")
        while not (found := self._send(f"/api/webhooks/{webhook}/deliveries")["items"]):
            time.sleep(0.02)
        return {"webhook_id": webhook, "delivery_id": found[0]["id"]}

    def _new_space(self) -> Ids:
        return {"space_id": self._send("/api/spaces", {"id": f"space-{uuid4().hex}"})["id"]}

    def _grant(self) -> Ids:
        """Return a grant; an agent that has none asks, and is answered with "always"."""
        run = self._ended_run("noter")["run_id"]
        if self._send(f"/api/runs/{run}")["status"] == "waiting":
            self._send(f"/api/runs/{run}/respond", {"response": {"decision": "always"}})
        return {"grant_id": self._send("/api/grants")["items"][0]["id"]}

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
