"""Errors in JSON files name the file, the key and the expected value."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.workspace.agent_file import AgentFile
from holdfast.workspace.json_files import decode_json
from holdfast.workspace.settings import Settings

SERVER = {"api": "openai", "base_url": "http://127.0.0.1/v1"}
NPX = {"command": "npx"}
MODEL = "expected `provider:name`, such as `openai:gpt-5` or `scripted:script.json`"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "model: missing"),
        ([], "expected `object`, got `array`"),
        (None, "expected `object`, got `null`"),
        ({"model": 1}, "model: expected `string | array`, got `integer`"),
        ({"model": "gpt-5"}, f"model: {MODEL}"),
        ({"model": "openai:"}, f"model: {MODEL}"),
        ({"model": []}, "model: expected `array` of length >= 1"),
        ({"model": ["a:b"] * 9}, "model: expected `array` of length <= 8"),
        ({"model": ["openai:gpt-5", "x"]}, f"model[1]: {MODEL}"),
        ({"description": None}, "description: expected `string`, got `null`"),
        ({"description": "x" * 2001}, "description: expected `string` of length <= 2000"),
        ({"description": "\0"}, "description: expected a text without a NUL character"),
        ({"chat": True}, "chat: expected `object`, got `boolean`"),
        ({"chat": {"enabled": 1}}, "chat.enabled: expected `boolean`, got `integer`"),
        ({"daemon": {"enable": True}}, "daemon.enable: unknown key, known are `enabled`, `heartbeats`"),
        ({"tools": "sleep"}, "tools: expected `array`, got `string`"),
        ({"tools": ["sleep", 3]}, "tools[1]: expected `string`, got `integer`"),
        (
            {"tools": ["a b"]},
            "tools[0]: expected the name of a tool, such as `ask_user`, or a prefix, such as `plan_*`",
        ),
        ({"permissions": {"forbid": []}}, "permissions.forbid: unknown key, known are `deny`, `ask`, `allow`"),
        (
            {"permissions": {"deny": ["bash(git *"]}},
            "permissions.deny[0]: expected the name of a tool, or `tool(specifier)`, such as `bash(git *)`",
        ),
        (
            {"limits": {"max_iteration": 1}},
            "limits.max_iteration: unknown key, known are "
            "`max_iterations`, `max_duration_seconds`, `token_budget`, `cost_budget_usd`, `max_depth`, `max_children`, "
            "`strict_token_budget`",
        ),
        ({"limits": {"max_iterations": 0}}, "limits.max_iterations: expected `integer` >= 1"),
        ({"limits": {"max_iterations": "20"}}, "limits.max_iterations: expected `integer | null`, got `string`"),
        ({"limits": {"token_budget": 1.5}}, "limits.token_budget: expected `integer | null`, got `number`"),
        ({"limits": {"cost_budget_usd": 0}}, "limits.cost_budget_usd: expected `number` > 0.0"),
        ({"unknown_outcome": "retry"}, "unknown_outcome: expected one of `tell`, `ask`, `fail`"),
        ({"temperature": 2.1}, "temperature: expected `number` <= 2.0"),
        ({"temperature": "hot"}, "temperature: expected `number | null`, got `string`"),
        (
            {"thinking": "hard"},
            "thinking: expected one of `true`, `false`, `minimal`, `low`, `medium`, `high`, `xhigh`",
        ),
        ({"mcp_servers": {"good": NPX, "bad": "npx"}}, "mcp_servers.bad: expected `object`, got `string`"),
        (
            {"mcp_servers": {"good": NPX, "git hub": NPX}},
            "mcp_servers.git hub: expected 1 to 24 letters, digits, `-` or single `_`, beginning with a letter or a "
            "digit",
        ),
        (
            {"mcp_servers": {"bad": {}}},
            "mcp_servers.bad: give either `command`, to start a program, or `url`, to call a server",
        ),
        (
            {"mcp_servers": {"bad": {**NPX, "url": "http://a"}}},
            "mcp_servers.bad: give either `command`, to start a program, or `url`, to call a server",
        ),
        (
            {"mcp_servers": {"bad": {**NPX, "headers": {"a": "b"}}}},
            "mcp_servers.bad.headers: `headers` requires `url`: remove it",
        ),
        (
            {"mcp_servers": {"bad": {"url": "http://a", "env": {"A": "b"}}}},
            "mcp_servers.bad.env: `env` requires `command`: remove it",
        ),
        (
            {"mcp_servers": {"bad": {"url": "localhost:80"}}},
            "mcp_servers.bad.url: expected a URL that begins with http:// or https://",
        ),
        (
            {"mcp_servers": {"bad": {**NPX, "classes": {"a": "safe"}}}},
            "mcp_servers.bad.classes.a: expected one of `read_only`, `idempotent`, `effectful`",
        ),
        (
            {"skills": [""]},
            "skills[0]: expected 1 to 128 letters, digits, `-` or `_`, beginning with a letter or a digit",
        ),
    ],
    ids=json.dumps,
)
def test_an_invalid_agent_file_is_reported_with_its_key(value: Any, message: str) -> None:
    if isinstance(value, dict) and value:
        value = {"model": "openai:gpt-5", **value}
    assert _error_message(json.dumps(value), AgentFile) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"model": "a:b",\n "limits":\n {"max": 1}}', "line 3: limits.max: unknown key"),
        ('{"model": "a:b",\n\n "skills": ["x",\n ""]}', "line 4: skills[1]: expected"),
        ('\n{"limits": {}}', "line 2: model: missing"),
    ],
)
def test_an_error_is_reported_with_its_line(text: str, message: str) -> None:
    assert _error_message(text, AgentFile).startswith(message)


def test_an_unknown_key_is_reported_with_the_known_ones() -> None:
    message = _error_message('{"model": "openai:gpt-5", "modle": 1}', AgentFile)
    assert message.startswith("modle: unknown key, known are `$schema`, `model`, `description`, `chat`, ")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"providers": {"local": {"api": "openai"}}}, "providers.local.base_url: missing"),
        (
            {"providers": {"a": SERVER, "b": {**SERVER, "api": "grpc"}, "c": {**SERVER, "api": "soap"}}},
            "providers.b.api: expected one of `openai`, `openai-responses`, `anthropic`",
        ),
        (
            {"providers": {"a": SERVER, "b": {**SERVER, "base_url": "localhost"}}},
            "providers.b.base_url: `base_url` must begin with http:// or https://",
        ),
        (
            {"providers": {"a": SERVER, "b": {**SERVER, "input_usd_per_million": 1}}},
            "providers.b.input_usd_per_million: "
            "give both `input_usd_per_million` and `output_usd_per_million`, or neither",
        ),
        (
            {"providers": {"a": {**SERVER, "api_key_env": "sk-123"}}},
            "providers.a.api_key_env: `api_key_env` must be the name of an environment variable",
        ),
        (
            {"providers": {"A": SERVER}},
            "providers.A: expected 1 to 64 lower-case letters, digits, `_` or `-`, beginning with a letter or a digit",
        ),
        ({"workers": 0}, "workers: expected `integer` >= 1"),
        ({"locale": "english please"}, "locale: expected a language tag of BCP 47, such as `en`, `ja` or `pt-BR`"),
        ({"context": {"anti_drift_every": 1001}}, "context.anti_drift_every: expected `integer` <= 1000"),
        (
            {"context": {"windows": 1}},
            "context.windows: unknown key, known are `anti_drift_every`, `tools_shown`",
        ),
    ],
    ids=json.dumps,
)
def test_invalid_settings_are_reported_with_their_key(value: Any, message: str) -> None:
    assert _error_message(json.dumps(value), Settings) == message


def test_an_error_elsewhere_does_not_hide_the_invalid_name() -> None:
    value = {"providers": {"good": SERVER, "bad": {**SERVER, "x": 1}}, "workers": 0}
    assert _error_message(json.dumps(value), Settings).startswith("providers.bad.x: unknown key")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON: line 1, column 1: expecting value"),
        ('{\n  "model": "a:b",\n}', "is not JSON: line "),
        ('{\n  // mine\n  "model": "a:b"\n}', "is not JSON: line 2, column 3: "),
        ('{"model": "a:b"} {}', "is not JSON: line 1, column 18: extra data"),
        ('{"model": "a\n"}', "is not JSON: line 1, column 13: "),
        ('{"model": NaN}', "`NaN` is not a JSON number"),
        ('{"temperature": -Infinity}', "`-Infinity` is not a JSON number"),
        ('{"model": "a:b", "tools": [], "model": "a:c"}', "`model` is twice in one object: remove one of them"),
        ('{"model": "a:b", "limits": {"x": 1, "x": 1}}', "`x` is twice in one object: remove one of them"),
        ('{"model": "a:\\ud800"}', "has an unpaired surrogate in a string"),
        ('{"model": "a:b", "temperature": 1e999}', "the number `1e999` is too large"),
        ('{"model": "a:b", "mcp_servers": {"a": {"b": -1e999}}}', "the number `-1e999` is too large"),
    ],
)
def test_a_text_that_is_not_json_is_reported_with_its_position(text: str, message: str) -> None:
    assert _error_message(text, AgentFile).startswith(message)


def test_a_number_with_thousands_of_digits_is_rejected() -> None:
    assert "digits" in _error_message(f'{{"model": "a:b", "temperature": {"9" * 5000}}}', AgentFile)


@pytest.mark.parametrize("depth", [200, 900, 990, 1_000, 5_000, 50_000])
def test_deep_nesting_is_accepted_or_rejected_without_a_crash(depth: int) -> None:
    text = f'{{"model": "a:b", "mcp_servers": {{"c": 1, "a": {{"b": {"[" * depth}{"]" * depth}}}}}}}'
    assert _error_message(text, AgentFile) in {
        "is nested too deeply",
        "mcp_servers.c: expected `object`, got `integer`",
    }


@given(text=st.text())
def test_any_text_is_rejected_with_the_name_of_its_file(text: str) -> None:
    _error_message(text, AgentFile)


@given(key=st.text(), value=json_values)
def test_any_unknown_key_is_rejected_by_its_name(key: str, value: Any) -> None:
    text = json.dumps({"model": "a:b", "limits": {f"{key}?": value}})
    assert _error_message(text, AgentFile).startswith(f"limits.{key}?: unknown key, known are ")


@given(name=st.text(), value=json_values.filter(lambda value: not isinstance(value, dict)))
def test_a_wrong_value_in_a_mapping_is_reported_with_its_key(name: str, value: Any) -> None:
    text = json.dumps({"providers": {"good": SERVER, f"{name}!": value}})
    assert _error_message(text, Settings).startswith(f"providers.{name}!: ")


@pytest.mark.parametrize("key", ["x - at `$.limits[...]", "x` - at `$.tools[...].y[3]`", "[...]", "`", ""])
def test_a_key_that_looks_like_a_path_is_reported_correctly(key: str) -> None:
    _error_message(json.dumps({"model": "a:b", "tools": [], "limits": {}, key: 1}), AgentFile)
    _error_message(json.dumps({"model": "a:b", "mcp_servers": {"a": {key: [1]}, key: 1}}), AgentFile)


@pytest.mark.parametrize("kind", ["agents.AgentFile", "settings.Settings"])
def test_decoding_does_not_corrupt_memory(kind: str) -> None:
    module, name = kind.split(".")
    program = f"""
import json
from holdfast.domain.errors import Invalid
from holdfast.workspace.{module} import {name}
from holdfast.workspace.json_files import decode_json
for key in {name}.__struct_encode_fields__:
    for value in (None, True, 1, 0.5, "a", "a b", [], ["a b"], {{}}, {{"a b": 1}}, {{"a": {{"b": []}}}}):
        for others in ({{}}, {{"model": "a:b"}}, {{"model": ["a"]}}):
            try:
                decode_json(json.dumps({{**others, key: value}}), {name}, file="the.json")
            except Invalid:
                pass
"""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, env={**os.environ, "PYTHONMALLOC": "debug"}, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")


def _error_message(text: str, kind: type) -> str:
    with pytest.raises(Invalid) as refused:
        decode_json(text, kind, file="the.json")
    assert refused.value.details == {"file": "the.json"}
    assert refused.value.message.startswith("the.json: ")
    return refused.value.message.removeprefix("the.json: ").removeprefix("line 1: ")
