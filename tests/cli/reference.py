"""docs/reference/cli.md, generated from the commands: `python -m tests.cli.reference` writes it.

Text that people wrote below the table of a command stays.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import typer

from holdfast.cli.app import app
from holdfast.cli.command import COMMON_OPTIONS
from tests.architecture.project import ROOT

REFERENCE: Final = ROOT / "docs" / "reference" / "cli.md"
HEAD: Final = ["| option | default | meaning |", "|---|---|---|"]
_SECTION: Final = re.compile(r"^## `(?P<name>[^`]+)`\n(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every command below one, with its whole name."""
    groups = getattr(command, "commands", None)
    if groups is None:
        yield name, command
    for word, below in (groups or {}).items():
        yield from commands(below, f"{name} {word}")


def all_commands() -> list[tuple[str, Any]]:
    """Return every command with its whole name."""
    return list(commands(typer.main.get_command(app), "holdfast"))


def generated(current: str) -> str:
    """Return the reference: its introduction, and a section per command with the text that people added."""
    introduction = current[: current.index("\n## `")].rstrip()
    notes = {match["name"]: _note(match["body"]) for match in _SECTION.finditer(current)}
    sections = ["\n".join([*_section(name, command), notes.get(name, "")]).rstrip() for name, command in all_commands()]
    return "\n\n".join([introduction, *sections]) + "\n"


def _note(body: str) -> str:
    """Return what follows the table of a section."""
    blocks = body.strip().split("\n\n")
    after = [at for at, block in enumerate(blocks) if block.startswith(HEAD[0])]
    rest = blocks[after[0] + 1 if after else 1 :]
    return "\n" + "\n\n".join(rest) if rest else ""


def _section(name: str, command: Any) -> list[str]:
    paragraphs = [" ".join(part.split()) for part in command.help.split("\n\n")]
    rows = [_row(parameter) for parameter in command.params if parameter.name not in COMMON_OPTIONS]
    return [f"## `{name}`", "", paragraphs[0], *(["", *HEAD, *rows] if rows else [])]


def _row(parameter: Any) -> str:
    names = [parameter.metavar] if parameter.param_type_name == "argument" else parameter.opts
    default = "" if parameter.default is None or parameter.default is False else f"`{parameter.default}` "
    return f"| {', '.join(f'`{name}`' for name in names)} | {default}| {parameter.help} |"


if __name__ == "__main__":
    REFERENCE.write_text(generated(REFERENCE.read_text()))
