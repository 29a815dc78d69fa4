"""Arguments of commands: ids with completion from the server, and input from the command line or stdin."""

import sys
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec
import typer

from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.client.sync.client import SyncClient

MAX_COMPLETIONS: Final = 50


def _completing(
    read: "Callable[[SyncClient], Iterable[tuple[str, str]]]",
) -> Callable[[Any, str], list[tuple[str, str]]]:
    """Return a completion with ids of the server; without a server there is none."""

    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        from holdfast.cli.connection import find_server
        from holdfast.client.sync.client import SyncClient

        named = {name: ctx.params.get(name) for name in ("url", "profile", "space")}
        try:
            found = find_server(**named)
            with SyncClient(found.url, key=found.key, space=found.space, retry_seconds=0) as client:
                ids = islice(read(client), MAX_COMPLETIONS)
                return [(id, " ".join(text.split())[:60]) for id, text in ids if id.startswith(incomplete)]
        except (HoldfastError, typer.BadParameter):
            return []

    return complete


complete_runs = _completing(
    lambda hf: ((r.id, f"{r.status} {r.agent_type}") for r in hf.runs.list(limit=MAX_COMPLETIONS))
)
complete_threads = _completing(lambda hf: ((t.id, t.title or "") for t in hf.threads.list(limit=MAX_COMPLETIONS)))
complete_agents = _completing(lambda hf: ((a.name, a.description) for a in hf.agents.list()))
_artifacts = _completing(lambda hf: ((a.id, a.title) for a in hf.artifacts.list(limit=MAX_COMPLETIONS)))
_files = _completing(lambda hf: ((f.id, f.name) for f in hf.files.list(limit=MAX_COMPLETIONS)))
complete_spaces = _completing(lambda hf: ((s.id, s.name) for s in hf.spaces.list(limit=MAX_COMPLETIONS)))


def complete_items(
    path: str, *, key: str = "id", text: str, items: str = "items"
) -> Callable[[Any, str], list[tuple[str, str]]]:
    """Return a completion with the items of a list; a path without a leading slash is one of the space."""

    def read(hf: "SyncClient") -> Iterable[tuple[str, str]]:
        target = path if path.startswith("/") else hf.path(f"/{path}")
        found = msgspec.json.decode(hf.request("GET", target, query={"limit": str(MAX_COMPLETIONS)}))
        return ((each[key], each.get(text) or "") for each in found[items])

    return _completing(read)


def complete_profiles(incomplete: str) -> list[str]:
    """Return the profiles of this user whose names begin like this."""
    from holdfast.cli.connection import read_profiles

    try:
        return [name for name in read_profiles().profiles if name.startswith(incomplete)]
    except HoldfastError:
        return []


def _not_empty(value: str) -> str:
    if not value:  # an unset shell variable
        raise typer.BadParameter("it is empty: pass an id")
    return value


RunArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="RUN_ID", parser=_not_empty, autocompletion=complete_runs, help="The run.")
]
ThreadArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="THREAD_ID", parser=_not_empty, autocompletion=complete_threads, help="The thread.")
]
AgentArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="AGENT", parser=_not_empty, autocompletion=complete_agents, help="The agent.")
]
ArtifactArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="ARTIFACT_ID", parser=_not_empty, autocompletion=_artifacts, help="The artifact.")
]
FileArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="FILE_ID", parser=_not_empty, autocompletion=_files, help="The file.")
]
SpaceArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="SPACE_ID", parser=_not_empty, autocompletion=complete_spaces, help="The space.")
]
TaskArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TASK_ID",
        parser=_not_empty,
        autocompletion=complete_items("/tasks", text="input", items="tasks"),
        help="The task, by its id or that of its run.",
    ),
]
InputArgument: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="INPUT", help="The message; `-`, or nothing in a pipe, reads stdin.")
]
LimitOption: TypeAlias = Annotated[
    int, typer.Option("--limit", "-n", metavar="NUMBER", min=1, max=100_000, help="The maximum number of items.")
]
AgentFilter: TypeAlias = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", autocompletion=complete_agents, help="Only of this agent.")
]
ThreadFilter: TypeAlias = Annotated[
    str | None,
    typer.Option("--thread", "-t", metavar="ID", autocompletion=complete_threads, help="Only of this thread."),
]
ThreadOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--thread", "-t", metavar="ID", autocompletion=complete_threads, help="The thread to continue."),
]
ModelOption: TypeAlias = Annotated[
    str | None, typer.Option("--model", "-m", metavar="NAME", help="The model, in place of that of the agent.")
]


def read_input(text: str | None) -> str:
    """Return the input of a run: the argument, or stdin."""
    if text is not None and text != "-":
        given = text
    elif text is None and sys.stdin.isatty():
        raise typer.BadParameter("give a text, or pipe one in", param_hint="INPUT")
    else:
        given = read_stdin().removesuffix("\n").removesuffix("\r")  # the end of the last line is not part of it
    if not given.strip():
        raise typer.BadParameter("the message is empty", param_hint="INPUT")
    return given


def read_stdin() -> str:
    """Return all of stdin as text."""
    try:
        return sys.stdin.buffer.read().decode(sys.stdin.encoding)
    except UnicodeDecodeError as exc:
        raise typer.BadParameter(f"stdin is not {exc.encoding.upper()} text", param_hint="INPUT") from exc


def decode_json(text: str, *, option: str) -> Json:
    """Return the JSON value of an option."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        raise typer.BadParameter(f"`{' '.join(text.split())[:80]}` is not JSON: {exc}", param_hint=option) from exc


def read_json(file: Path, *, option: str) -> Json:
    """Return the JSON value in the file of an option."""
    try:
        return msgspec.json.decode(file.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise typer.BadParameter(f"`{file}` has no JSON: {exc}", param_hint=option) from exc
    except OSError as exc:
        raise typer.BadParameter(f"`{file}` cannot be read: {exc.strerror}", param_hint=option) from exc
