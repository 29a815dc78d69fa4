"""Checks of values against JSON Schemas, in words that a model can act on.

The library holds the interpreter while it checks, so that a thread would not keep the event loop free. A check that may
take more than a few milliseconds runs as a program with limits of time and memory: `python -m` this module.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import jsonschema_rs
import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.tools.json_schema import BoundedSchema

MAX_INLINE_EVALUATIONS: Final = 100_000
"""Evaluations of a check that runs on the event loop: some 5 ms."""
CHECK_CPU_SECONDS: Final = 2
"""Seconds of CPU time of a check in a process of its own."""
CHECK_TIMEOUT_SECONDS: Final = 30.0
"""Seconds until such a check is killed, however busy the machine is."""
MAX_CHECK_BYTES: Final = 1024 * 1024 * 1024
"""Memory of such a check."""
MAX_CHECK_PROCESSES: Final = 2
MAX_PROBLEM_CHARS: Final = 300
"""Characters of one problem, without the sample."""
MAX_SAMPLE_CHARS: Final = 80
"""Characters of the offending value that are quoted."""

_LOW_PRIORITY: Final = 10
_starters: Final = ThreadPoolExecutor(MAX_CHECK_PROCESSES, thread_name_prefix="holdfast-schemas")


class _Check(msgspec.Struct, frozen=True):
    schema: msgspec.Raw
    value: Json
    name: str
    limit: int


class _CheckResult(msgspec.Struct, frozen=True):
    problems: list[str]
    refused: str | None = None


async def find_problems(schema: BoundedSchema, value: Json, *, name: str, limit: int) -> list[str]:
    """Return the first problems of the value called `name`; raise `Invalid` if it is too large to be checked."""
    if schema.is_cheap(value, max_evaluations=MAX_INLINE_EVALUATIONS):
        return _problems(schema, value, name, limit)
    request = msgspec.json.encode(_Check(msgspec.Raw(schema.encoded), value, name, limit))
    result = await asyncio.get_running_loop().run_in_executor(_starters, _check_in_process, request)
    if result.refused is not None:
        raise Invalid(result.refused)
    return result.problems


def _problems(schema: BoundedSchema, value: Json, name: str, limit: int) -> list[str]:
    return [_problem_message(error, name) for error in schema.errors(value, limit=limit)]


def _check_in_process(request: bytes) -> _CheckResult:
    refused = _CheckResult([], "it takes too long to check the value against its schema: send less at once")
    try:
        ended = subprocess.run(
            [sys.executable, "-sP", "-m", __name__],
            input=request,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=CHECK_TIMEOUT_SECONDS,
            cwd="/",
            env={"PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        return msgspec.json.decode(ended.stdout, type=_CheckResult) if ended.returncode == 0 else refused
    except (OSError, subprocess.TimeoutExpired):
        return refused


def main() -> None:
    """Read a check from standard input, and write its result to standard output."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (CHECK_CPU_SECONDS, CHECK_CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_CHECK_BYTES, MAX_CHECK_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(_LOW_PRIORITY)
    check = msgspec.json.decode(sys.stdin.buffer.read(), type=_Check)
    try:
        result = _CheckResult(_problems(BoundedSchema(bytes(check.schema)), check.value, check.name, check.limit))
    except Invalid as error:
        result = _CheckResult([], error.message)
    sys.stdout.buffer.write(msgspec.json.encode(result))


def _problem_message(error: jsonschema_rs.ValidationError, name: str) -> str:
    problem = truncate(f"`{_instance_path(error.instance_path) or name}`: {_describe_error(error)}", MAX_PROBLEM_CHARS)
    if error.kind.name in ("required", "additionalProperties"):
        return problem
    return f"{problem}; got {truncate(msgspec.json.encode(error.instance).decode(), MAX_SAMPLE_CHARS)}"


def _describe_error(error: jsonschema_rs.ValidationError) -> str:
    match error.kind.name:
        case "required":
            return f"`{error.kind.value}` is missing"
        case "additionalProperties":
            return f"it does not take {', '.join(f'`{name}`' for name in error.kind.value)}"
        case "type":
            return f"it must be {' or '.join(error.kind.as_dict()['types'])}"
        case "enum":  # its own message names only the first ones
            options = (msgspec.json.encode(option).decode() for option in error.kind.as_dict()["options"])
            return f"it must be one of {', '.join(options)}"
        case "anyOf" | "oneOf":
            return ", or ".join(dict.fromkeys(_branch_errors(error))) or error.message
        case _:
            return error.message


def _branch_errors(error: jsonschema_rs.ValidationError) -> Iterator[str]:
    """Yield why each alternative did not match; nothing if more than one did."""
    for errors in error.kind.as_dict().get("context", ()):
        for first in errors[:1]:
            deeper = len(first.instance_path) > len(error.instance_path)
            path = f"`{_instance_path(first.instance_path)}`: " if deeper else ""
            yield f"{path}{_describe_error(first)}"


def _instance_path(parts: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def truncate(text: str, limit: int) -> str:
    """Return a text, cut to `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


if __name__ == "__main__":
    main()
