"""Checks that take long run in a process of their own, which is stopped."""

import subprocess
import time
from typing import Any

import msgspec
import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.tools import schema_check
from holdfast.tools.json_schema import BoundedSchema
from holdfast.tools.schema_check import find_problems


async def problems(schema: Json, value: Json, *, limit: int = 5) -> list[str]:
    return await find_problems(BoundedSchema(msgspec.json.encode(schema)), value, name="value", limit=limit)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every check in a process of its own."""
    monkeypatch.setattr(schema_check, "MAX_INLINE_EVALUATIONS", 0)


CHECKS: list[tuple[Json, Json]] = [
    ({"type": "object"}, {"a": [1, "é", None, 1.5]}),
    ({"type": "object", "required": ["a", "b"]}, {}),
    ({"items": {"type": "string"}}, [1, "a", {"b": 2}]),
    ({"type": "string"}, 5),
    ({"properties": {"a": {"anyOf": [{"type": "string"}, {"enum": [1, 2]}]}}}, {"a": 3}),
]


@pytest.mark.parametrize(("schema", "value"), CHECKS)
async def test_a_process_finds_the_same_problems(schema: Json, value: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    inline = await problems(schema, value)
    monkeypatch.setattr(schema_check, "MAX_INLINE_EVALUATIONS", 0)
    assert await problems(schema, value) == inline


async def test_a_large_value_is_checked_in_a_process() -> None:
    schema: dict[str, Json] = {"items": {"type": "integer"}}
    assert await problems(schema, [1] * 200_000) == []
    assert await problems(schema, [*[1] * 200_000, "x"]) == ['`[200000]`: it must be integer; got "x"']


@pytest.mark.usefixtures("in_process")
async def test_a_value_that_is_too_large_is_refused_with_the_reason() -> None:
    with pytest.raises(Invalid, match="send less at once"):
        await problems({"items": {"allOf": [{"type": "string"}] * 900}}, ["a"] * 100_000)


async def test_a_check_that_does_not_end_is_stopped_and_takes_no_time_of_the_event_loop() -> None:
    """A linear engine takes the length of the pattern times that of the text: here minutes."""
    used = time.thread_time()
    with pytest.raises(Invalid, match="takes too long"):
        await problems({"pattern": "[ab]*a[ab]{5000}c"}, "ab" * 1_000_000)
    assert time.thread_time() - used < 1


@pytest.mark.usefixtures("in_process")
async def test_the_process_has_no_variables_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    run = subprocess.run

    def record(*args: Any, **options: Any) -> Any:
        seen.append(options["env"])
        return run(*args, **options)

    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setattr(subprocess, "run", record)
    assert await problems({"type": "string"}, "a") == []
    assert [*seen[0]] == ["PYTHONPATH"]
