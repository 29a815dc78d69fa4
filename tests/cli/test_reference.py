"""docs/reference/cli.md documents every command and option with its help text."""

from collections.abc import Iterator
from typing import Any, Final

import typer

from holdfast.cli.main import app
from holdfast.cli.output import EXIT_STDOUT_FAILED
from holdfast.cli.runs import EXIT_CODES, EXIT_DETACHED
from tests.architecture.project import ROOT

REFERENCE: Final = ROOT / "docs" / "reference" / "cli.md"
HEAD: Final = ["| option | default | meaning |", "|---|---|---|"]


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every command below one, with its whole name."""
    groups = getattr(command, "commands", None)
    if groups is None:
        yield name, command
    for word, below in (groups or {}).items():
        yield from commands(below, f"{name} {word}")


def section(name: str, command: Any) -> list[str]:
    """Return the beginning of a command's section."""
    summary = command.help.split("\n\n")[0].replace("\n", " ")
    return [f"## `{name}`", "", summary, "", *HEAD, *(_row(parameter) for parameter in command.params)]


def _row(parameter: Any) -> str:
    names = [parameter.metavar] if parameter.metavar else parameter.opts
    default = "" if parameter.default is None or parameter.default is False else f"`{parameter.default}` "
    return f"| {', '.join(f'`{name}`' for name in names)} | {default}| {parameter.help} |"


def test_every_command_and_option_is_in_the_reference_with_its_help_text() -> None:
    reference = REFERENCE.read_text()
    for name, command in commands(typer.main.get_command(app), "holdfast"):
        assert "\n".join(section(name, command)) + "\n\n" in reference + "\n\n"


def test_the_reference_has_no_unknown_command() -> None:
    headings = {f"## `{name}`" for name, _ in commands(typer.main.get_command(app), "holdfast")}
    assert {line for line in REFERENCE.read_text().splitlines() if line.startswith("## `")} == headings


def test_every_command_has_a_json_option() -> None:
    all_commands = list(commands(typer.main.get_command(app), "holdfast"))
    assert [
        name for name, command in all_commands if "--json" not in {opt for each in command.params for opt in each.opts}
    ] == []


def test_every_exit_code_is_in_the_reference() -> None:
    reference = REFERENCE.read_text()
    assert [
        code
        for code in (*EXIT_CODES.values(), EXIT_DETACHED, EXIT_STDOUT_FAILED, 2)
        if f"\n| {code} |" not in reference
    ] == []
