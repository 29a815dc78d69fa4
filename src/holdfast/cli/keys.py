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

from holdfast.cli.command import command, new_group, options
from holdfast.cli.output import DatabaseOption, WorkspaceOption, print_json, print_line, print_message
from holdfast.cli.tables import print_done, print_list, short_time
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Millis, instant
from holdfast.domain.space import ApiKey, Scope

if TYPE_CHECKING:
    from holdfast.client.client import Client
    from holdfast.control.api_keys import KeyRequest, MadeKey

T = TypeVar("T")


UrlOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The URL of a server; by default that of the workspace if it runs; its key is HOLDFAST_API_KEY.",
    ),
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


@command(key, server=False)
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
    pool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A pool that a worker key may take runs from, by default any; may be repeated."
        ),
    ] = None,
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
        pools=pool or [],
        rate_limit=rate_limit,
        expires_at=expires_at,
    )

    async def create(keys: KeyAdmin) -> "tuple[MadeKey, bool]":
        is_first = not await keys.all()
        return await keys.create(request), is_first

    created, is_first = _run_with(_open_keys(workspace, database, url), create)
    if options().as_json:
        print_json(created)
    else:
        print_line(created.secret.encode())
        print_message(f"created key {created.id}; its secret is shown only once: send it as `Authorization: Bearer …`")
    if is_first:
        print_message(
            "this is the first key: from now on every request needs one, and clients without a key are refused; "
            "set HOLDFAST_API_KEY for `holdfast`, and give the others a key"
        )


@command(key, "list", server=False)
def list_keys(
    workspace: WorkspaceOption = Path(),
    database: DatabaseOption = None,
    url: UrlOption = None,
) -> None:
    """List all keys, oldest first, including revoked ones."""
    print_list(
        _run_with(_open_keys(workspace, database, url), lambda keys: keys.all()),
        [
            ("key", lambda each: each.id),
            ("scope", lambda each: each.scope),
            ("spaces", lambda each: "every space" if each.every_space else ", ".join(each.space_ids)),
            ("pools", lambda each: ", ".join(each.pools)),
            ("rate limit", lambda each: each.rate_limit),
            ("expires", lambda each: short_time(each.expires_at)),
            ("revoked", lambda each: short_time(each.revoked_at)),
            ("name", lambda each: each.name),
        ],
        empty="no keys: requests need none",
    )


@command(key, server=False)
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="The id of the key.")],
    workspace: WorkspaceOption = Path(),
    database: DatabaseOption = None,
    url: UrlOption = None,
) -> None:
    """Revoke the key KEY_ID; its open connections are closed within a second."""
    revoked = _run_with(_open_keys(workspace, database, url), lambda keys: keys.revoke(ApiKeyId(key_id)))
    print_done(revoked, f"revoked key {revoked.id} ({revoked.name}) at {revoked.revoked_at}")


def _run_with(key_admin: AbstractAsyncContextManager[KeyAdmin], action: Callable[[KeyAdmin], Awaitable[T]]) -> T:
    async def run() -> T:
        async with key_admin as keys:
            return await action(keys)

    return asyncio.run(run())


@asynccontextmanager
async def _open_keys(workspace: Path, database: str | None, url: str | None) -> AsyncIterator[KeyAdmin]:
    from holdfast.workspace.server_address import read_address

    if url is None and database is None and (running := read_address(workspace)) is not None:
        url = running.url
    if url is None:
        from holdfast.bootstrap.workspace import open_keys

        async with open_keys(workspace, database=database) as keys:
            yield keys
    else:
        from holdfast.client.client import Client

        async with Client(url, retry_seconds=0) as client:
            yield _ServerKeys(client)
