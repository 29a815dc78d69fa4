"""`holdfast key …`: create, list and revoke API keys, locally or on a server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec
import typer

from holdfast.cli.command import WholeHelpCommand, new_group
from holdfast.cli.output import DatabaseOption, JsonFlag, WorkspaceOption, print_json, print_line, print_message
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Millis, instant
from holdfast.domain.space import ApiKey, Scope

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.control.api_keys import KeyRequest, MadeKey

T = TypeVar("T")


UrlOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="URL", help="The URL of a running server; its key is read from HOLDFAST_API_KEY.")
]

key: Final = new_group("Create, list and revoke API keys.")


class KeyAdmin(Protocol):
    """API keys of a database or a server."""

    async def create(self, request: "KeyRequest") -> "MadeKey":
        """Create a key."""

    async def all(self) -> list[ApiKey]:
        """Return all keys."""

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Revoke a key."""


class _ServerKeys:
    """The API keys of a server."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    async def create(self, request: "KeyRequest") -> "MadeKey":
        """Create a key."""
        from holdfast.control.api_keys import MadeKey

        return await self._client.send("POST", "/keys", MadeKey, body=request, in_space=False)

    async def all(self) -> list[ApiKey]:
        """Return all keys."""
        return (await self._client.send("GET", "/keys", _KeyPage, in_space=False)).items

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Revoke a key."""
        return await self._client.send("DELETE", f"/keys/{quote(key, safe='')}", ApiKey, in_space=False)


class _KeyPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[ApiKey]


@key.command(cls=WholeHelpCommand)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The purpose of the key, such as `laptop` or `ci`.")],
    scope: Annotated[Scope, typer.Option(help="The permissions; each scope includes the ones before it.")] = Scope.RUN,
    space: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A space it gives access to, by default `default`; may be repeated."),
    ] = None,
    every_space: Annotated[
        bool, typer.Option("--every-space", help="Give access to all spaces, also future ones.")
    ] = False,
    rate_limit: Annotated[
        str | None, typer.Option(metavar="RATE", help="The rate limit, such as `600/minute`.")
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(metavar="DAYS", min=1, max=36500, help="Days until it expires; by default it never does."),
    ] = None,
    workspace: WorkspaceOption = Path(),
    database: DatabaseOption = None,
    url: UrlOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a key called NAME and print its secret, which is shown only once."""
    from holdfast.control.api_keys import KeyRequest

    expires_at = None
    if days is not None:
        expires_at = instant(Millis(int((datetime.now(UTC) + timedelta(days=days)).timestamp() * 1000)))
    request = KeyRequest(
        name=name,
        scope=scope,
        space_ids=[SpaceId(each) for each in space or ()],
        every_space=every_space,
        rate_limit=rate_limit,
        expires_at=expires_at,
    )

    async def create(keys: KeyAdmin) -> "tuple[MadeKey, bool]":
        is_first = not await keys.all()
        return await keys.create(request), is_first

    created, is_first = _run_with(_open_keys(workspace, database, url), create)
    if as_json:
        print_json(created)
    else:
        print_line(created.secret.encode())
        print_message(f"created key {created.id}; its secret is shown only once: send it as `Authorization: Bearer …`")
    if is_first:
        print_message(
            "this is the first key: from now on every request needs one, and clients without a key are refused; "
            "set HOLDFAST_API_KEY for `holdfast`, and give the others a key"
        )


@key.command("list", cls=WholeHelpCommand)
def list_keys(
    workspace: WorkspaceOption = Path(),
    database: DatabaseOption = None,
    url: UrlOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List all keys, oldest first, including revoked ones; with `--json`, one object per line."""
    for each in _run_with(_open_keys(workspace, database, url), lambda keys: keys.all()):
        if as_json:
            print_json(each)
            continue
        spaces = "every space" if each.every_space else ", ".join(each.space_ids)
        state = "never expires" if each.expires_at is None else f"expires {each.expires_at}"
        if each.revoked_at is not None:
            state = f"revoked {each.revoked_at}"
        print_line("  ".join([each.id, each.scope, spaces, each.rate_limit or "-", state, each.name]).encode())


@key.command(cls=WholeHelpCommand)
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="The id of the key.")],
    workspace: WorkspaceOption = Path(),
    database: DatabaseOption = None,
    url: UrlOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Revoke the key KEY_ID; its open connections are closed within a second."""
    revoked = _run_with(_open_keys(workspace, database, url), lambda keys: keys.revoke(ApiKeyId(key_id)))
    if as_json:
        print_json(revoked)
    else:
        print_message(f"revoked key {revoked.id} ({revoked.name}) at {revoked.revoked_at}")


def _run_with(key_admin: AbstractAsyncContextManager[KeyAdmin], action: Callable[[KeyAdmin], Awaitable[T]]) -> T:
    async def run() -> T:
        async with key_admin as keys:
            return await action(keys)

    return asyncio.run(run())


@asynccontextmanager
async def _open_keys(workspace: Path, database: str | None, url: str | None) -> AsyncIterator[KeyAdmin]:
    if url is None:
        from holdfast.bootstrap.workspace import open_keys

        async with open_keys(workspace, database=database) as keys:
            yield keys
    else:
        from holdfast.client.client import Client

        async with Client(url, retry_seconds=0) as client:
            yield _ServerKeys(client)
