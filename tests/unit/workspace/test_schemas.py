"""The published schemas accept the same files as the decoder."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import jsonschema_rs
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.workspace.json_files import decode_json
from holdfast.workspace.schemas import SCHEMAS, json_schema, render_schema

REFERENCE: Final = Path(__file__).parents[3] / "docs" / "reference"

Strategy: TypeAlias = st.SearchStrategy[Any]


def mostly(right: list[Any], *wrong: Any) -> Strategy:
    """Draw valid values, and sometimes subtly invalid ones."""
    return st.sampled_from(right * (9 * len(wrong) // len(right)) + list(wrong))


def some(**keys: Strategy) -> st.SearchStrategy[dict[str, Any]]:
    """Draw objects with some of the keys."""
    chosen = st.lists(st.sampled_from(sorted(keys)), max_size=3, unique=True)
    return chosen.flatmap(lambda few: st.fixed_dictionaries({key: keys[key] for key in few}))


names = mostly(["bot", "a-b_c", "a1", "x" * 64], "1", "A", "x" * 65, "_a", "-a", "a b", "ä", "", "a\n", "a.b")
models = mostly(["openai:gpt-5", "a/b.c:d e", "local:llama3:8b"], "a:", ":a", "a", "a:b\n", "a:\x1f", "ä:b", "a b:c")
rules = mostly(["bash", "bash(git *)", "a(あ)"], "bash()", "bash(", "a(b)c", "a(\n)", "a\n", "(a)", "*", "")
few_rules = st.lists(rules, max_size=2)
counts = mostly([None, 1, 50, 1000], 0, -1, 1001, 2**53 - 1, 2**53)
prices = mostly([None, 0, 0.25, 2, 2_000_000], -0.5, -1)
modes = some(enabled=st.booleans())
permissions = some(deny=few_rules, ask=few_rules, allow=few_rules)
limits = some(
    max_iterations=counts,
    max_duration_seconds=counts,
    token_budget=counts,
    cost_budget_usd=mostly([None, 0.25, 3, 2_000_000], 0, -1, 2_000_001),
)
servers = st.builds(
    lambda required, more: {**required, **more},
    st.fixed_dictionaries(
        {
            "api": mostly(["openai", "openai-responses", "anthropic"], "soap", "OpenAI"),
            "base_url": mostly(["http://a", "https://b/v1"], "ftp://c", "http:/", " http://a", "x\nhttp://a", ""),
        }
    ),
    some(
        api_key_env=mostly([None, "KEY", "_a1"], "sk-123", "1A", "A B", "A\n", "", 1),
        context_window=counts,
        input_usd_per_million=prices,
        output_usd_per_million=prices,
        cached_input_usd_per_million=prices,
        timeout_seconds=mostly([0.5, 300], 0, None),
    ),
)
words = st.text(max_size=4)
# 2.0 is an integer to JSON Schema, and a number to the reader: both are right, so it is in no example.
fractions = st.floats(-1e6, 1e6).map(lambda number: number + 0.5 if number.is_integer() else number)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | fractions | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
programs = some(
    command=mostly(["npx", "./run"], "", "a\0", None),
    args=st.lists(words, max_size=2),
    env=st.dictionaries(mostly(["A", "_b1"], "1", "a b", ""), words, max_size=2),
    cwd=mostly([None, "files"], "agents", "..", ""),
    reads=st.lists(mostly(["/opt"], "opt"), max_size=1),
    network=st.booleans(),
    sandbox=mostly(["on", "off"], "OFF", None),
    url=mostly([None, "http://a", "https://b/c"], "ftp://a", "http://", "http:///", "a"),
    headers=st.dictionaries(mostly(["X-A", "authorization"], "a b", "", "a:"), words, max_size=1),
    timeout_seconds=mostly([0.5, 300], 0, None, 86_401),
    tools=st.none() | st.lists(words, max_size=2),
    classes=st.dictionaries(words, mostly(["read_only", "idempotent", "effectful"], "transactional"), max_size=1),
)
server_names = mostly(["a", "git-hub", "a_b", "x" * 24], "x" * 25, "a__b", "_a", "a_", "a b", "", "a\n")
mcp_servers = st.dictionaries(
    server_names,
    st.builds(
        lambda needed, more: {**needed, **more}, st.sampled_from([{"command": "a"}, {"url": "http://b"}, {}]), programs
    ),
    max_size=2,
)
agents = some(
    description=mostly(["", "Helps.\n", "𝄞" * 2000], "あ" * 2001, "a\0"),
    chat=modes,
    task=modes,
    daemon=modes,
    tools=st.lists(names, max_size=2),
    permissions=permissions,
    limits=limits,
    unknown_outcome=mostly(["tell", "ask", "fail"], "TELL", None),
    temperature=mostly([None, 0, 0.5, 2], -0.5, 2.5, 3),
    thinking=mostly([None, True, False, "minimal", "xhigh"], "none", 1),
    mcp_servers=mcp_servers,
    skills=st.lists(names, max_size=2),
    working_folder=mostly(
        ["files", "a/b.c", "/a/b c"], "", "..", "a/../b", "/a/..", "/", ".a", "agents", "Tools/x", "a\n", "a//b", None
    ),
)
DOCUMENTS: Final = {
    "agent.schema.json": st.builds(
        lambda model, others: {"model": model, **others},
        models | st.lists(models, max_size=2) | st.just(["a:b"] * 9),
        agents,
    ),
    "permissions.schema.json": some(
        **{"$schema": st.none() | words}, allow=st.dictionaries(names, few_rules, max_size=2)
    ),
    "settings.schema.json": some(
        providers=st.dictionaries(names, servers, max_size=2),
        limits=limits,
        permissions=permissions,
        mcp_servers=mcp_servers,
        default_agent=st.none() | names,
        locale=mostly([None, "en", "pt-BR", "zh-Hant-TW"], "e", "en_US", "en\n", "x" * 9, "en-"),
        workers=counts,
        context=some(tools_shown=counts, anti_drift_every=counts),
        sandbox=mostly(["on", "off"], "OFF", True, None),
        project_folders=st.dictionaries(
            mostly(["/srv/site", "/a b"], "srv", "/", "/a/", "/a/..", "/a/*", "/a\n"),
            some(spaces=st.lists(mostly(["default", "a_B-1"], "", "a.b", "a\n"), max_size=2)),
            max_size=1,
        ),
        git=st.none() | some(name=mostly(["Ada", "A b"], "", " a", "a\n", "<a>"), email=mostly(["a@b.c"], "a@b ", "")),
        sandbox_reads=st.lists(mostly(["/opt", "/a b/c"], "opt", "", "/", "~/x", "/a\0"), max_size=2),
    ),
    "tool.schema.json": st.builds(
        lambda required, more: {**required, **more},
        st.fixed_dictionaries(
            {
                "name": words,
                "description": mostly(["Weighs.", "𝄞" * 2000], "", "あ" * 2001),
                "parameters": st.dictionaries(words, anything, max_size=2),
                "command": st.lists(mostly(["sh", "./run"], ""), max_size=2),
            }
        ),
        some(
            **{"class": mostly(["idempotent", "effectful"], "transactional", "IDEMPOTENT", None)},
            read_only=st.booleans(),
            timeout_seconds=mostly([0.5, 3600], 0, -1, 3601, None),
        ),
    ),
}


@st.composite
def near(draw: st.DrawFn, documents: Strategy) -> Any:
    """Draw a document, sometimes with an arbitrary value under a known or unknown key."""
    document = draw(documents)
    if draw(st.integers(0, 3)):
        return document
    holder = document
    while inner := [part for part in holder.values() if isinstance(part, dict)]:
        if draw(st.booleans()):
            break
        holder = draw(st.sampled_from(inner))
    key = draw(st.sampled_from(sorted(holder)) | words if holder else words)
    return _with(document, holder, {**holder, key: draw(anything)})


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_published_schema_is_current(name: str) -> None:
    assert (REFERENCE / name).read_bytes() == render_schema(name), "run `python -m holdfast.workspace.schemas`"


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_is_valid_for_draft_2020_12(name: str) -> None:
    assert json_schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(json_schema(name))


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_key_has_a_description(name: str) -> None:
    keys = list(_keys(json_schema(name)))
    assert keys
    assert [key for key, schema in keys if not schema.get("description")] == []


@pytest.mark.parametrize("name", SCHEMAS)
@given(data=st.data())
def test_the_schema_accepts_what_the_reader_accepts_and_nothing_else(name: str, data: st.DataObject) -> None:
    document = data.draw(near(DOCUMENTS[name]))
    validator = jsonschema_rs.validator_for(json_schema(name))
    accepted = _is_read(json.dumps(document), SCHEMAS[name])
    event("accepted" if accepted else "refused")
    assert validator.is_valid(document) == accepted


def test_the_schemas_are_written_to_the_given_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "holdfast.workspace.schemas", str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        name: render_schema(name) for name in SCHEMAS
    }


def _is_read(text: str, kind: Any) -> bool:
    try:
        decode_json(text, kind, file="the.json")
    except Invalid:
        return False
    return True


def _with(value: Any, old: Any, new: Any) -> Any:
    """Return `value` with `old` replaced by `new`."""
    if value is old:
        return new
    if isinstance(value, dict):
        return {key: _with(item, old, new) for key, item in value.items()}
    return value


def _keys(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for kind, definition in document["$defs"].items():
        for key, schema in definition.get("properties", {}).items():
            yield f"{kind}.{key}", schema
