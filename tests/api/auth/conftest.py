"""A server with two spaces and a key of each scope for each, which the tests share."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from holdfast.domain.content import Json
from holdfast.domain.space import Scope
from tests.api.conftest import write_agents
from tests.api.site import Site, serve_with_auth
from tests.scenario.agents.agent_workspace import AgentWorkspace

ACME: Final = "acme"
GLOBEX: Final = "globex"


class AuthSite:
    """A server with API keys."""

    def __init__(self, site: Site, root: str) -> None:
        self.site = site
        self.root = root
        self.keys: dict[str, str] = {}

    async def key(self, scope: str = "run", *spaces: str, created_with: str | None = None, **fields: Json) -> Json:
        """Create a key, with the root key unless another secret is given, and return it."""
        body: Json = {"name": f"{scope} of {spaces}", "scope": scope, "space_ids": list(spaces), **fields}
        response = await self.request(
            self.root if created_with is None else created_with, "POST", "/api/keys", json=body
        )
        assert response.status_code == 201, response.text
        return response.json()

    async def request(self, secret: str | None, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request with a key, or without one."""
        return await self.site.request(method, path, headers=bearer(secret) | options.pop("headers", {}), **options)

    async def get(self, secret: str, path: str) -> Json:
        """Send a GET request, check for status 200 and return the body."""
        return check_status(await self.request(secret, "GET", path), 200)

    async def post(self, secret: str, path: str, body: Json = None, *, expect: int = 201) -> Json:
        """Send a POST request, check the status and return the body."""
        return check_status(
            await self.request(secret, "POST", path, **({} if body is None else {"json": body})), expect
        )


def bearer(secret: str | None) -> Mapping[str, str]:
    """Return the header that carries a key."""
    return {} if secret is None else {"Authorization": f"Bearer {secret}"}


def check_status(response: httpx2.Response, expect: int) -> Json:
    """Check the status of a response, and return its body."""
    assert response.status_code == expect, f"{response.status_code} {response.text}"
    return response.json() if response.content else None


async def create_keys(site: Site) -> AuthSite:
    """Create the first key, two spaces, and a key of each scope for each space."""
    first = await site.post("/api/keys", {"name": "root", "scope": "admin", "every_space": True})
    auth_site = AuthSite(site, first["secret"])
    for space in (ACME, GLOBEX):
        await auth_site.post(auth_site.root, "/api/spaces", {"id": space})
        for scope in Scope:
            auth_site.keys[f"{space} {scope}"] = (await auth_site.key(scope, space))["secret"]
    return auth_site


@pytest.fixture(scope="session")
async def auth_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AuthSite]:
    """Yield the server that these tests share."""
    folder: Path = tmp_path_factory.mktemp("auth")
    async with serve_with_auth(write_agents(AgentWorkspace(folder / "workspace", folder / "holdfast.db"))) as site:
        yield await create_keys(site)


@pytest.fixture
def acme_key(auth_site: AuthSite) -> str:
    """Return a key with scope `run` for the space `acme`."""
    return auth_site.keys[f"{ACME} run"]


@pytest.fixture
def globex_key(auth_site: AuthSite) -> str:
    """Return a key with scope `admin` for the space `globex`."""
    return auth_site.keys[f"{GLOBEX} admin"]
