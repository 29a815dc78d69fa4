"""A tenant of a running server: a space, its admin key, and an object of every kind."""

import json
from urllib.request import Request, urlopen

import msgspec

from holdfast.domain.content import Json
from tests.api.server_process import TIMEOUT_SECONDS, Server


class SpaceContents(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a space: ids by path parameter, and marks that occur in every object."""

    ids: dict[str, list[str]]
    marks: list[str]


class KnownContents(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the key's own space and of the other space."""

    own: SpaceContents
    foreign: SpaceContents


class Tenant:
    """A space with an admin key and an object of every kind."""

    def __init__(self, server: Server, root: str, space: str) -> None:
        self.server = server
        self.space = space
        self.mark = f"the secret of {space}"
        self.secret = root
        self.send("/api/spaces", {"id": space, "name": self.mark})
        key = self.send("/api/keys", {"name": self.mark, "scope": "admin", "space_ids": [space]})
        self.secret = key["secret"]
        self.contents = SpaceContents(ids=self._create_objects(), marks=[self.mark, key["id"], key["secret"]])

    def send(self, path: str, body: Json, *, kind: str = "application/json") -> Json:
        """Send a POST request with the key of the tenant."""
        headers = {"Content-Type": kind, "Authorization": f"Bearer {self.secret}"}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        with urlopen(Request(self.server.url + path, data=data, headers=headers), timeout=TIMEOUT_SECONDS) as response:
            return json.load(response)

    def _create_objects(self) -> dict[str, list[str]]:
        thread = self.send("/api/threads", {"title": self.mark, "metadata": {"note": self.mark}})["id"]
        run = self.send(f"/api/threads/{thread}/runs?wait=60", {"input": self.mark, "tags": [self.mark]})["id"]
        artifact = self.send(f"/api/runs/{run}/artifacts", {"type": "doc", "title": self.mark, "content": self.mark})
        self.send(f"/api/threads/{thread}/tasks", {"title": self.mark})
        file = self.send("/api/files?name=secret.txt", self.mark.encode(), kind="text/plain")
        task = self.send("/agents/hello/task", {"input": self.mark})["taskId"]
        session = self.send("/agents/hello/chat", {"message": self.mark})["sessionId"]
        return {
            "space_id": [self.space],
            "thread_id": [thread, session],
            "session_id": [thread, session],
            "run_id": [run, task],
            "task_id": [task],
            "artifact_id": [artifact["id"]],
            "file_id": [file["id"]],
            "name": ["hello"],
        }
