"""`holdfast context …`, or `ctx`: memories, reminders and skills by their path in the API.

    holdfast context list /spaces/SPACE_ID/memories
    holdfast ctx view /memories/MEMORY_ID

The path is joined to `/api`. `holdfast memory` and `holdfast reminder` do the same with options of their own.
"""

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from holdfast.cli.arguments import LimitOption, decode_json
from holdfast.cli.command import command, connect, new_group, options
from holdfast.cli.output import print_json
from holdfast.cli.tables import one_line, print_done, print_list
from holdfast.domain.content import Json

if TYPE_CHECKING:
    from holdfast.client.sync.client import SyncClient

MAX_PAGE: Final = 100
NOUNS: Final = ("memories", "reminders", "skills")
context: Final = new_group("Read and change memories, reminders and skills by their path.")

PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="Such as `/spaces/SPACE_ID/memories`, or `/memories/MEMORY_ID`.")
]
QueryOption = Annotated[
    list[str] | None, typer.Option("--query", "-q", metavar="NAME=VALUE", help="A query parameter; may be repeated.")
]
BodyOption = Annotated[str, typer.Option("--body", "-b", metavar="JSON", help="The body of the request.")]


@command(context, "list")
def list_items(path: PathArgument, query: QueryOption = None, limit: LimitOption = 50) -> None:
    """List what is at PATH."""
    target, parameters = _path(path), _query(query)
    with connect() as hf:
        print_list(
            _pages(hf, target, parameters, limit),
            [
                ("id", lambda each: each.get("id")),
                ("type", lambda each: each.get("type") or each.get("trigger_type")),
                ("status", lambda each: each.get("status")),
                ("text", lambda each: one_line(each.get("text") or each.get("content") or each.get("name"))),
            ],
            empty=f"nothing at {path}",
        )


@command(context)
def view(path: PathArgument, query: QueryOption = None) -> None:
    """Print what is at PATH as JSON."""
    _print(_send("GET", path, query=query))


@command(context)
def create(path: PathArgument, body: BodyOption) -> None:
    """Create something at PATH."""
    _print(_send("POST", path, body=body))


@command(context)
def replace(path: PathArgument, body: BodyOption) -> None:
    """Replace what is at PATH."""
    _print(_send("PUT", path, body=body))


@command(context)
def update(path: PathArgument, body: BodyOption) -> None:
    """Change fields of what is at PATH."""
    _print(_send("PATCH", path, body=body))


@command(context)
def remove(path: PathArgument) -> None:
    """Remove what is at PATH."""
    print_done(_send("DELETE", path), f"removed {path}")


def _send(method: str, path: str, *, query: list[str] | None = None, body: str | None = None) -> Any:
    content: Json = msgspec.UNSET if body is None else decode_json(body, option="--body")
    key = uuid.uuid4().hex if method == "POST" else None
    with connect() as hf:
        answered = hf.request(method, _path(path), query=_query(query), body=content, key=key)
    return msgspec.json.decode(answered or b"null")


def _pages(hf: "SyncClient", path: str, query: dict[str, str], limit: int) -> Iterator[Any]:
    parameters: dict[str, Any] = {**query, "limit": min(limit, MAX_PAGE)}
    while limit > 0:
        page = msgspec.json.decode(hf.request("GET", path, query=parameters))
        yield from page["items"][:limit]
        limit -= len(page["items"])
        if page.get("next_cursor") is None:
            return
        parameters["cursor"] = page["next_cursor"]


def _path(path: str) -> str:
    """Return the path in the API; only the nouns of this group are allowed."""
    words = path.strip("/").split("/")
    noun = words[2] if words[0] == "spaces" and len(words) > 2 else words[0]
    if noun not in NOUNS or any(word in ("", ".", "..") for word in words):
        expected = ", ".join(f"`/{each}`" for each in NOUNS)
        raise typer.BadParameter(
            f"`{path}` is not a path of this group: begin with {expected}, or the same below `/spaces/SPACE_ID`",
            param_hint="PATH",
        )
    return f"/api/{'/'.join(words)}"


def _query(given: list[str] | None) -> dict[str, str]:
    parameters = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"`{each}` is not a parameter: write `NAME=VALUE`", param_hint="--query")
        parameters[name] = value
    return parameters


def _print(value: Any) -> None:
    if options().as_json:
        print_json(value)
    else:
        typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
