"""`holdfast key …`: create, list and revoke API keys, locally or on a server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, Protocol, TypeAlias, TypeVar

import typer

from holdfast.cli.output import JsonFlag, print_json, print_line, print_message
from holdfast.control.api_keys import KeyRequest, MadeKey
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Instant, Millis, instant
from holdfast.domain.space import ApiKey, Scope

T = TypeVar("T")

WorkspaceOption: TypeAlias = Annotated[
    Path, typer.Option("--workspace", "-w", readable=False, help="The folder whose keys they are.")
]
DatabaseOption: TypeAlias = Annotated[
    str | None, typer.Option(help="A `postgresql://` URL, or a SQLite file; the workspace's own, unless given.")
]
UrlOption: TypeAlias = Annotated[
    str | None, typer.Option(help="The address of a server that runs; its key is read from HOLDFAST_API_KEY.")
]

key: Final = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)


class KeyAdmin(Protocol):
    """What can be done with keys, here or on a server."""

    async def create(self, asked: KeyRequest) -> MadeKey:
        """Make a key."""

    async def all(self) -> list[ApiKey]:
        """Return all keys."""

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Revoke a key."""


@key.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is for, such as `laptop` or `ci`.")],
    scope: Annotated[Scope, typer.Option(help="What it may do; each includes the ones before it.")] = Scope.RUN,
    space: Annotated[
        list[str] | None,
        typer.Option(help="A space that it opens, `default` unless given; may be given more than once."),
    ] = None,
    every_space: Annotated[bool, typer.Option("--every-space", help="Open all spaces, also later ones.")] = False,
    rate_limit: Annotated[str | None, typer.Option(help="How often it may ask, such as `600/minute`.")] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=36500, help="For how many days; for ever, unless given.")
    ] = None,
    workspace: WorkspaceOption = Path(),
    database: DatabaseOption = None,
    url: UrlOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a key called NAME, and print its secret: it is shown this once."""
    asked = KeyRequest(
        name=name,
        scope=scope,
        space_ids=[SpaceId(each) for each in space or ()],
        every_space=every_space,
        rate_limit=rate_limit,
        expires_at=None if days is None else _days_from_now(days),
    )
    made = _run_with(_open_keys(workspace, database, url), lambda keys: keys.create(asked))
    if as_json:
        print_json(made)
    else:
        print_line(made.secret.encode())
        print_message(f"made key {made.id}; what is above is shown once: send it as `Authorization: Bearer …`")


@key.command("list")
def list_keys(
    workspace: WorkspaceOption = Path(),
    database: DatabaseOption = None,
    url: UrlOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List the keys, the oldest first, the revoked ones too; with `--json`, one object for each line."""
    for each in _run_with(_open_keys(workspace, database, url), lambda keys: keys.all()):
        if as_json:
            print_json(each)
        else:
            print_line(_key_line(each).encode())


@key.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="The key, by its id.")],
    workspace: WorkspaceOption = Path(),
    database: DatabaseOption = None,
    url: UrlOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Let the key KEY_ID open nothing any more; what it has open is cut off within a second."""
    revoked = _run_with(_open_keys(workspace, database, url), lambda keys: keys.revoke(ApiKeyId(key_id)))
    if as_json:
        print_json(revoked)
    else:
        print_message(f"key {revoked.id} ({revoked.name}) opens nothing since {revoked.revoked_at}")


def _run_with(opened: AbstractAsyncContextManager[KeyAdmin], do: Callable[[KeyAdmin], Awaitable[T]]) -> T:
    async def done() -> T:
        async with opened as keys:
            return await do(keys)

    return asyncio.run(done())


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


def _key_line(each: ApiKey) -> str:
    spaces = "every space" if each.every_space else ", ".join(each.space_ids)
    return "  ".join([each.id, each.scope, spaces, each.rate_limit or "-", _key_state(each), each.name])


def _key_state(each: ApiKey) -> str:
    if each.revoked_at is not None:
        return f"revoked {each.revoked_at}"
    return "for ever" if each.expires_at is None else f"until {each.expires_at}"


def _days_from_now(days: int) -> Instant:
    moment = datetime.now(UTC) + timedelta(days=days)
    return instant(Millis(int(moment.timestamp() * 1000)))
