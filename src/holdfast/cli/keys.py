"""`holdfast key …`: create, list and revoke API keys, locally or on a server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, Protocol, TypeAlias, TypeVar

import typer

from holdfast.cli.output import DatabaseOption, JsonFlag, WorkspaceOption, print_json, print_line, print_message
from holdfast.control.api_keys import KeyRequest, MadeKey
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Millis, instant
from holdfast.domain.space import ApiKey, Scope

T = TypeVar("T")


UrlOption: TypeAlias = Annotated[
    str | None, typer.Option(help="The URL of a running server; its key is read from HOLDFAST_API_KEY.")
]

key: Final = typer.Typer(help="Create, list and revoke API keys.", no_args_is_help=True)


class KeyAdmin(Protocol):
    """API keys of a database or a server."""

    async def create(self, request: KeyRequest) -> MadeKey:
        """Create a key."""

    async def all(self) -> list[ApiKey]:
        """Return all keys."""

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Revoke a key."""


@key.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The purpose of the key, such as `laptop` or `ci`.")],
    scope: Annotated[Scope, typer.Option(help="The permissions; each scope includes the ones before it.")] = Scope.RUN,
    space: Annotated[
        list[str] | None,
        typer.Option(help="A space it gives access to, by default `default`; may be repeated."),
    ] = None,
    every_space: Annotated[
        bool, typer.Option("--every-space", help="Give access to all spaces, also future ones.")
    ] = False,
    rate_limit: Annotated[str | None, typer.Option(help="The rate limit, such as `600/minute`.")] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=36500, help="Days until it expires; by default it never does.")
    ] = None,
    workspace: WorkspaceOption = Path(),
    database: DatabaseOption = None,
    url: UrlOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a key called NAME and print its secret, which is shown only once."""
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
    created = _run_with(_open_keys(workspace, database, url), lambda keys: keys.create(request))
    if as_json:
        print_json(created)
    else:
        print_line(created.secret.encode())
        print_message(f"created key {created.id}; its secret is shown only once: send it as `Authorization: Bearer …`")


@key.command("list")
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


@key.command()
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
        from holdfast.cli.client import ServerClient, ServerKeys

        async with ServerClient(url) as remote:
            yield ServerKeys(remote)
