"""How a command is declared: `@command(group)` adds the options that every command has, and connects to the server.

    @command(run)
    def show(run_id: RunArgument) -> None:
        \"\"\"Show RUN_ID: its agent, and where it stands.\"\"\"
        with connect() as hf:
            show_object(hf.run(run_id).get())

The options for the server and the output are the same everywhere, so no command names them.
"""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup

from holdfast.cli.arguments import complete_profiles, complete_spaces

if TYPE_CHECKING:
    from holdfast.cli.connection import Target
    from holdfast.client.client import Client
    from holdfast.client.sync.client import SyncClient


class OutputFormat(StrEnum):
    """The format of the data on stdout."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON; the same as `-o json`.")]
OutputOption: TypeAlias = Annotated[
    OutputFormat | None,
    typer.Option("--output", "-o", help="Print a table, one JSON value, or one JSON value per line."),
]
UrlOption: TypeAlias = Annotated[str | None, typer.Option("--url", metavar="URL", help="The URL of the server.")]
ProfileOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        autocompletion=complete_profiles,
        help="The profile with the URL, the key and the space.",
    ),
]
SpaceOption: TypeAlias = Annotated[
    str | None, typer.Option("--space", metavar="ID", autocompletion=complete_spaces, help="The space.")
]


class CommonOptions(NamedTuple):
    """The options that every command has."""

    url: str | None = None
    profile: str | None = None
    space: str | None = None
    output: OutputFormat = OutputFormat.TABLE

    @property
    def as_json(self) -> bool:
        """Whether the data is JSON."""
        return self.output is not OutputFormat.TABLE


_OUTPUT: Final = {"as_json": (JsonFlag, False), "output": (OutputOption, None)}
_SERVER: Final = {"url": (UrlOption, None), "profile": (ProfileOption, None), "space": (SpaceOption, None)}
COMMON_OPTIONS: Final = frozenset({*_OUTPUT, *_SERVER})
_current: ContextVar[CommonOptions] = ContextVar("common_options", default=CommonOptions())  # noqa: B039  # immutable


def command(
    group: typer.Typer, name: str | None = None, *, server: bool = True, hidden: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command of a group with the common options; without `server`, only those of the output."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        group.command(name, cls=WholeHelpCommand, hidden=hidden)(with_common_options(function, server=server))
        return function

    return register


def with_common_options(function: Callable[..., None], *, server: bool = True) -> Callable[..., None]:
    """Return a function with the parameters of `function` and the common options."""
    added = {**(_SERVER if server else {}), **_OUTPUT}

    @wraps(function)
    def wrapper(**values: Any) -> None:
        common = {name: values.pop(name) for name in added}
        if common["as_json"] and common["output"] not in (None, OutputFormat.JSON):
            raise typer.BadParameter("`--json` and `-o` name two formats: give one", param_hint="--json")
        output = OutputFormat.JSON if common.pop("as_json") else common.pop("output") or OutputFormat.TABLE
        common.pop("output", None)
        token = _current.set(CommonOptions(**common, output=output))
        try:
            function(**values)
        finally:
            _current.reset(token)

    signature = inspect.signature(function, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *(parameter.replace(kind=keyword) for parameter in signature.parameters.values()),
        *(
            inspect.Parameter(name, keyword, default=default, annotation=kind)
            for name, (kind, default) in added.items()
        ),
    ]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del wrapper.__wrapped__  # it has other parameters
    return wrapper


def options() -> CommonOptions:
    """Return the common options of the command that runs."""
    return _current.get()


def target() -> "Target":
    """Return the server that the command uses."""
    from holdfast.cli.connection import find_server

    chosen = options()
    return find_server(url=chosen.url, profile=chosen.profile, space=chosen.space)


def connect() -> "SyncClient":
    """Return a client of the server that the command uses; it does not wait for a server that is not there."""
    from holdfast.client.sync.client import SyncClient

    found = target()
    return SyncClient(found.url, key=found.key, space=found.space, retry_seconds=0)


def connect_async() -> "Client":
    """Return an async client of the server that the command uses."""
    from holdfast.client.client import Client

    found = target()
    return Client(found.url, key=found.key, space=found.space, retry_seconds=0)


def run_until_interrupted(work: Coroutine[Any, Any, None]) -> None:
    """Run a command that has no end of its own until Ctrl-C, which is its usual end."""
    import asyncio
    from contextlib import suppress

    with suppress(KeyboardInterrupt):
        asyncio.run(work)


def server_options() -> str:
    """Return the options of the command line that lead to the same server, for commands that are printed."""
    import shlex

    chosen = options()
    named = (("--url", chosen.url), ("--profile", chosen.profile), ("--space", chosen.space))
    return "".join(f" {option} {shlex.quote(value)}" for option, value in named if value is not None)


class WholeHelpGroup(TyperGroup):
    """A group whose list of commands never cuts a text."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with the first sentence of each."""
        rows = [(name, text) for name, text in self.summaries(ctx) if text is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def summaries(self, ctx: Any) -> Sequence[tuple[str, str | None]]:
        """Return the name and the first sentence of each command; null for a hidden one."""
        return [(name, None if below.hidden else summary(below.help)) for name, below in self.commands.items()]


class WholeHelpCommand(TyperCommand):
    """A command that is listed with its whole first sentence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; errors do not begin with a word of the library that checks values."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence."""
        return summary(self.help)


def summary(text: str | None) -> str:
    """Return the first sentence of a help text, without its full stop."""
    first = " ".join((text or "").split("\n\n")[0].split())
    end = first.find(". ")
    return (first if end < 0 else first[:end]).removesuffix(".")


def new_group(help: str) -> typer.Typer:
    """Return a group of commands."""
    return typer.Typer(help=help, no_args_is_help=True, cls=WholeHelpGroup)
