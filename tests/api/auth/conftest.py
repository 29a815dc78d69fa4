"""A server with two spaces, each with keys of its own; one server for all tests that leave it as it was, or nearly."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from holdfast.domain.content import Json
from tests.api.conftest import fill
from tests.api.site import Site, guarded
from tests.scenario.agents.agent_workspace import AgentWorkspace

OURS: Final = "acme"
THEIRS: Final = "globex"


class House:
    """A server that has keys."""

    def __init__(self, site: Site, root: str) -> None:
        self.site = site
        self.root = root
        self.keys: dict[str, str] = {}

    async def key(self, scope: str = "run", *spaces: str, by: str | None = None, **more: Json) -> Json:
        """Make a key, and return it."""
        body: Json = {"name": f"{scope} of {spaces}", "scope": scope, "space_ids": list(spaces), **more}
        answer = await self.ask(self.root if by is None else by, "POST", "/api/keys", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def ask(self, secret: str | None, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request with a key, or without any."""
        return await self.site.ask(method, path, headers=bearer(secret) | options.pop("headers", {}), **options)

    async def get(self, secret: str, path: str) -> Json:
        """Read something that may be read."""
        return checked(await self.ask(secret, "GET", path), 200)

    async def post(self, secret: str, path: str, body: Json = None, *, expect: int = 201) -> Json:
        """Send something that may be sent."""
        return checked(await self.ask(secret, "POST", path, **({} if body is None else {"json": body})), expect)


def bearer(secret: str | None) -> Mapping[str, str]:
    """Return the header that a key is sent in."""
    return {} if secret is None else {"Authorization": f"Bearer {secret}"}


def checked(answer: httpx2.Response, expect: int) -> Json:
    """Return what was answered, which must be of this status."""
    assert answer.status_code == expect, f"{answer.status_code} {answer.text}"
    return answer.json() if answer.content else None


async def furnish(site: Site) -> House:
    """Make the first key, two spaces, and for each a key of each scope."""
    first = await site.post("/api/keys", {"name": "root", "scope": "admin", "every_space": True})
    house = House(site, first["secret"])
    for space in (OURS, THEIRS):
        await house.post(house.root, "/api/spaces", {"id": space})
        for scope in ("read", "run", "admin"):
            house.keys[f"{space} {scope}"] = (await house.key(scope, space))["secret"]
    return house


@pytest.fixture(scope="session")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """Yield the server that these tests share."""
    folder: Path = tmp_path_factory.mktemp("house")
    async with guarded(fill(AgentWorkspace(folder / "workspace", folder / "holdfast.db"))) as site:
        yield await furnish(site)


@pytest.fixture
def ours(house: House) -> str:
    """Return a key of our space that may run agents."""
    return house.keys[f"{OURS} run"]


@pytest.fixture
def theirs(house: House) -> str:
    """Return a key of the other space that may do everything there."""
    return house.keys[f"{THEIRS} admin"]
