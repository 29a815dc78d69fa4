"""The program that runs functions with `@tool` of one file outside the server: `tools/<name>.py` of a workspace.

    python -I -m holdfast.tools.function_host describe FILE      writes the specs of its tools as JSON
    python -I -m holdfast.tools.function_host call FILE NAME     reads arguments and writes the result, both JSON

What a function prints goes to stderr. An error is one line on stderr, with exit code 1.
"""

import asyncio
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.tools.function_tool import FunctionTool
from holdfast.tools.python_types import to_json


def load_functions(file: Path) -> dict[str, FunctionTool[..., object]]:
    """Run a file, and return its tools by name; raise `Invalid` with the reason if it cannot be used."""
    try:
        defined = runpy.run_path(str(file))
    except Exception as exc:  # whatever the file does is reported
        raise Invalid(f"it cannot be loaded: {type(exc).__name__}: {exc}") from exc
    found = [value for value in defined.values() if isinstance(value, FunctionTool)]
    tools = {function.spec.name: function for function in found}
    if not tools:
        raise Invalid("it has no function with `@holdfast.tool`: decorate one")
    return tools


def main(arguments: Sequence[str]) -> int:
    """Describe or call the functions of a file; return the exit code."""
    action, file, *names = arguments
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)
        sys.path.insert(0, str(Path(file).parent))
        try:
            result = _describe(Path(file)) if action == "describe" else asyncio.run(_call(Path(file), names[0]))
        except Exception as exc:  # noqa: BLE001  # any error of a user's function is for the model
            sys.stdout.flush()
            sys.stderr.write(f"{exc}\n" if isinstance(exc, Invalid) else f"{type(exc).__name__}: {exc}\n")
            return 1
        output.write(msgspec.json.encode(result))
    return 0


def _describe(file: Path) -> Json:
    functions = load_functions(file)
    for name, function in functions.items():
        if function.takes_context:
            raise Invalid(
                f"`{name}` takes a `ToolContext`, which only functions in the process of the server get: read the "
                'environment variable `HOLDFAST_CALL_KEY`, or set `"function_tools": "in_process"`'
            )
    return [msgspec.to_builtins(function.spec) for function in functions.values()]


async def _call(file: Path, name: str) -> Json:
    function = load_functions(file)[name]
    return to_json(await function.invoke(function.convert(msgspec.json.decode(sys.stdin.buffer.read()))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
