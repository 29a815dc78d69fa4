"""`holdfast key …`: who may use a workspace from elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, Protocol, TypeAlias, TypeVar

import typer

from holdfast.cli.printing import JsonFlag, print_json, print_line, say
from holdfast.control.keys.keys import AskedKey, MadeKey
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Instant, Millis, instant
from holdfast.domain.space import ApiKey, Scope

T = TypeVar("T")

Folder: TypeAlias = Annotated[
    Path, typer.Option("--workspace", "-w", readable=False, help="The folder whose keys they are.")
]
Database: TypeAlias = Annotated[
    str | None, typer.Option(help="A `postgresql://` URL, or a SQLite file; the workspace's own, unless given.")
]
Url: TypeAlias = Annotated[
    str | None, typer.Option(help="The address of a server that runs; its key is read from HOLDFAST_API_KEY.")
]

key: Final = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)


class Keys(Protocol):
    """What can be done with keys, here or on a server."""

    async def create(self, asked: AskedKey) -> MadeKey:
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
    workspace: Folder = Path(),
    database: Database = None,
    url: Url = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a key called NAME, and print its secret: it is shown this once."""
    asked = AskedKey(
        name=name,
        scope=scope,
        space_ids=[SpaceId(each) for each in space or ()],
        every_space=every_space,
        rate_limit=rate_limit,
        expires_at=None if days is None else _in_days(days),
    )
    made = _with(_keys(workspace, database, url), lambda keys: keys.create(asked))
    if as_json:
        print_json(made)
    else:
        print_line(made.secret.encode())
        say(f"made key {made.id}; what is above is shown once: send it as `Authorization: Bearer …`")


@key.command("list")
def list_keys(
    workspace: Folder = Path(), database: Database = None, url: Url = None, as_json: JsonFlag = False
) -> None:
    """List the keys, the oldest first, the revoked ones too; with `--json`, one object for each line."""
    for each in _with(_keys(workspace, database, url), lambda keys: keys.all()):
        if as_json:
            print_json(each)
        else:
            print_line(_line(each).encode())


@key.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="The key, by its id.")],
    workspace: Folder = Path(),
    database: Database = None,
    url: Url = None,
    as_json: JsonFlag = False,
) -> None:
    """Let the key KEY_ID open nothing any more; what it has open is cut off within a second."""
    revoked = _with(_keys(workspace, database, url), lambda keys: keys.revoke(ApiKeyId(key_id)))
    if as_json:
        print_json(revoked)
    else:
        say(f"key {revoked.id} ({revoked.name}) opens nothing since {revoked.revoked_at}")


def _with(opened: AbstractAsyncContextManager[Keys], do: Callable[[Keys], Awaitable[T]]) -> T:
    async def done() -> T:
        async with opened as keys:
            return await do(keys)

    return asyncio.run(done())


@asynccontextmanager
async def _keys(workspace: Path, database: str | None, url: str | None) -> AsyncIterator[Keys]:
    if url is None:
        from holdfast.bootstrap.keys import open_keys

        async with open_keys(workspace, database=database) as keys:
            yield keys
    else:
        from holdfast.cli.remote import Remote
        from holdfast.cli.remote_keys import RemoteKeys

        async with Remote(url) as remote:
            yield RemoteKeys(remote)


def _line(each: ApiKey) -> str:
    spaces = "every space" if each.every_space else ", ".join(each.space_ids)
    return "  ".join([each.id, each.scope, spaces, each.rate_limit or "-", _state(each), each.name])


def _state(each: ApiKey) -> str:
    if each.revoked_at is not None:
        return f"revoked {each.revoked_at}"
    return "for ever" if each.expires_at is None else f"until {each.expires_at}"


def _in_days(days: int) -> Instant:
    moment = datetime.now(UTC) + timedelta(days=days)
    return instant(Millis(int(moment.timestamp() * 1000)))
