"""JSON Schemas of the files that people write, generated from the types that read them.

`python -m holdfast.workspace.schemas [folder]` writes them, by default into `docs/reference`.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.domain.content import Json
from holdfast.workspace.agents import AgentFile
from holdfast.workspace.grants import GrantsFile
from holdfast.workspace.settings import Settings
from holdfast.workspace.tools import ToolFile

SCHEMAS: Final[Mapping[str, Any]] = {
    "agent.schema.json": AgentFile,
    "permissions.schema.json": GrantsFile,
    "settings.schema.json": Settings,
    "tool.schema.json": ToolFile,
}

_TITLES: Final = {name: f"{name.removesuffix('.schema.json')}.json of Holdfast" for name in SCHEMAS}
_FIELD_ADDITIONS: Final[Mapping[str, Mapping[str, Mapping[str, Json]]]] = {
    "Limits": {
        "max_iterations": {"description": "How many calls of its model a run may make."},
        "max_duration_seconds": {"description": "How long a run may work; waiting for a person does not count."},
        "token_budget": {"description": "How many tokens a run and all that it spawns may use together."},
        "cost_budget_usd": {
            "description": "What a run and all that it spawns may cost together; its model must have a known price."
        },
        "max_depth": {"description": "How many agents may stand above one that works for a run; null is 8."},
        "max_children": {
            "description": "How many runs may work for a run at once, and how many tasks it may begin; null is 32."
        },
    },
    "SearxngSearch": {"type": {"description": "A SearXNG server, or one that answers as it does."}},
    "JsonSearch": {"type": {"description": "An API that the other keys describe."}},
    "ProviderSettings": {
        "api": {"description": "The protocol: chat completions, responses, or messages."},
        "base_url": {"description": "The address, such as http://127.0.0.1:11434/v1.", "pattern": "^https?://"},
        "api_key_env": {
            "description": "The environment variable that holds the key; null if none is wanted.",
            "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
        },
        "context_window": {"description": "How many tokens its models read."},
        "input_usd_per_million": {"description": "What a million tokens cost that a model reads; null: not known."},
        "output_usd_per_million": {"description": "What a million tokens cost that a model writes; null: not known."},
        "cached_input_usd_per_million": {"description": "What a million tokens cost that come from a cache."},
        "timeout_seconds": {"description": "How long it may stay silent in the middle of a call."},
    },
}
"""What types of the domain do not say in the words of a file, or check in code."""

_PRICES_RULE: Final = {
    "anyOf": [
        {
            "required": ["input_usd_per_million", "output_usd_per_million"],
            "properties": {
                "input_usd_per_million": {"type": "number"},
                "output_usd_per_million": {"type": "number"},
            },
        },
        {
            "properties": {
                "input_usd_per_million": {"type": "null"},
                "output_usd_per_million": {"type": "null"},
                "cached_input_usd_per_million": {"type": "null"},
            }
        },
    ]
}
"""Prices are known, or they are not."""

_NULL: Final[dict[str, Json]] = {"type": "null"}
_COMMAND_OR_URL_RULE: Final[dict[str, Json]] = {
    "oneOf": [
        {
            "required": ["command"],
            "properties": {"command": {"type": "string"}, "url": _NULL, "headers": {"maxProperties": 0}},
        },
        {
            "required": ["url"],
            "properties": {
                "url": {"type": "string"},
                "command": _NULL,
                "args": {"maxItems": 0},
                "env": {"maxProperties": 0},
                "cwd": _NULL,
                "reads": {"maxItems": 0},
                "network": {"const": False},
                "sandbox": {"const": "on"},
            },
        },
    ]
}
"""An MCP server is started or called."""


def json_schema(name: str) -> dict[str, Json]:
    """Return a JSON Schema, draft 2020-12, by the name of its file."""
    made = _portable(msgspec.json.schema(SCHEMAS[name]))
    definitions = made["$defs"]
    for kind, fields in _FIELD_ADDITIONS.items():
        for field, added in fields.items() if kind in definitions else ():
            definitions[kind]["properties"][field].update(added)
    for kind, rule in (("ProviderSettings", _PRICES_RULE), ("McpServer", _COMMAND_OR_URL_RULE)):
        if kind in definitions:
            definitions[kind].update(rule)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": _TITLES[name], **made}


def write_schemas(folder: Path) -> None:
    """Write all schemas into a folder."""
    for name in SCHEMAS:
        (folder / name).write_bytes(render_schema(name))


def render_schema(name: str) -> bytes:
    """Return a schema as it is published."""
    return msgspec.json.format(msgspec.json.encode(json_schema(name)), indent=2) + b"\n"


def _portable(value: Json) -> Json:
    """Return a schema whose patterns end as they do outside of Python, where `$` is the end and nothing else."""
    match value:
        case {"pattern": str(pattern), **others}:
            return {**_portable(others), "pattern": pattern.replace(r"\Z", "$")}
        case dict():
            return {key: _portable(item) for key, item in value.items()}
        case list():
            return [_portable(item) for item in value]
        case _:
            return value


if __name__ == "__main__":
    write_schemas(Path(*sys.argv[1:] or ["docs/reference"]))
