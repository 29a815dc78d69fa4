"""docs/reference/cli.md is generated from the commands."""

from holdfast.cli.command import COMMON_OPTIONS
from holdfast.cli.main import EXIT_INTERRUPTED
from holdfast.cli.output import EXIT_STDOUT_FAILED
from holdfast.cli.runs import EXIT_CODES, EXIT_WAITING
from tests.cli.reference import REFERENCE, all_commands, generated


def test_the_reference_is_generated_from_the_commands() -> None:
    current = REFERENCE.read_text()
    assert current == generated(current), "run `python -m tests.cli.reference`"


def test_every_command_has_a_json_option() -> None:
    found = all_commands()
    assert [name for name, each in found if "--json" not in {opt for param in each.params for opt in param.opts}] == []


def test_every_exit_code_and_common_option_is_in_the_reference() -> None:
    reference = REFERENCE.read_text()
    codes = (*EXIT_CODES.values(), EXIT_INTERRUPTED, EXIT_STDOUT_FAILED, EXIT_WAITING, 2)
    assert [code for code in codes if f"\n| {code} |" not in reference] == []
    names = ["--json" if name == "as_json" else f"--{name}" for name in COMMON_OPTIONS]
    assert [name for name in names if f"`{name}`" not in reference] == []
