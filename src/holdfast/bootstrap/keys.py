"""Keys without a server: straight in the database of a workspace."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.bootstrap.store import SystemClock, open_store
from holdfast.bootstrap.workspace import make_default_space
from holdfast.control.keys.keys import KeyControl
from holdfast.control.keys.ring import KeyRing
from holdfast.domain.errors import StoreOwned
from holdfast.workspace.folder import Workspace


@asynccontextmanager
async def open_keys(workspace: Path, *, database: str | None = None) -> AsyncIterator[KeyControl]:
    """Yield what can be done with the keys of a workspace, by whoever has its files."""
    folder = Workspace(workspace)
    folder.prepare()
    try:
        async with open_store(database or folder.database) as store:
            await make_default_space(store)
            clock = SystemClock()
            yield KeyControl(store.api_keys, KeyRing(store.api_keys, clock), clock)
    except StoreOwned as exc:
        raise StoreOwned(
            "a server has this workspace open: go through it, with `--url` and its address, or stop it"
        ) from exc
