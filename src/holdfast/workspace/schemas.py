"""JSON Schemas of the files that people write, generated from the types that read them.

`python -m holdfast.workspace.schemas [folder]` writes them, by default into `docs/reference`.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.domain.content import Json
from holdfast.workspace.agent_file import AgentFile
from holdfast.workspace.grants import GrantsFile
from holdfast.workspace.settings import Settings
from holdfast.workspace.tools import ToolFile

SCHEMAS: Final[Mapping[str, Any]] = {
    "agent.schema.json": AgentFile,
    "permissions.schema.json": GrantsFile,
    "settings.schema.json": Settings,
    "tool.schema.json": ToolFile,
}

_FIELD_ADDITIONS: Final[Mapping[str, Mapping[str, Mapping[str, Json]]]] = {
    "Limits": {
        "max_iterations": {"description": "How many model calls a run may make."},
        "max_duration_seconds": {"description": "How long a run may take; waiting for a person does not count."},
        "token_budget": {"description": "How many tokens a run and its descendants may use together."},
        "strict_token_budget": {"description": "Whether a run also fails if its last call exceeds `token_budget`."},
        "cost_budget_usd": {
            "description": "The cost of a run and its descendants together; its model must have a known price."
        },
        "max_depth": {"description": "How deeply sub-agents may be nested below a run; null is 8."},
        "max_children": {
            "description": "How many child runs may be active at once, and how many tasks a run may start; null is 32."
        },
    },
    "SearxngSearch": {"type": {"description": "A SearXNG server, or one with the same API."}},
    "JsonSearch": {"type": {"description": "An HTTP API that the other keys describe."}},
    "ProviderSettings": {
        "api": {"description": "The protocol: chat completions, responses, or messages."},
        "base_url": {"description": "The URL, such as http://127.0.0.1:11434/v1.", "pattern": "^https?://"},
        "api_key_env": {
            "description": "The environment variable that holds the key; null if none is needed.",
            "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
        },
        "context_window": {"description": "The context window of its models, in tokens."},
        "input_usd_per_million": {"description": "The price of a million input tokens; null is unknown."},
        "output_usd_per_million": {"description": "The price of a million output tokens; null is unknown."},
        "cached_input_usd_per_million": {"description": "The price of a million cached input tokens."},
        "timeout_seconds": {"description": "The maximum silence during a call, in seconds."},
    },
}
"""Descriptions and patterns that the domain types do not carry, or check in code."""

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
"""Input and output prices are given together."""

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
"""An MCP server has either a command or a URL."""


def json_schema(name: str) -> dict[str, Json]:
    """Return the JSON Schema, draft 2020-12, with this file name."""
    schema = _portable(msgspec.json.schema(SCHEMAS[name]))
    definitions = schema["$defs"]
    for kind, fields in _FIELD_ADDITIONS.items():
        for field, added in fields.items() if kind in definitions else ():
            definitions[kind]["properties"][field].update(added)
    for kind, rule in (("ProviderSettings", _PRICES_RULE), ("McpServer", _COMMAND_OR_URL_RULE)):
        if kind in definitions:
            definitions[kind].update(rule)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{name.removesuffix('.schema.json')}.json of Holdfast",
        **schema,
    }


def render_schema(name: str) -> bytes:
    """Return a schema as the bytes of its published file."""
    return msgspec.json.format(msgspec.json.encode(json_schema(name)), indent=2) + b"\n"


def _portable(value: Json) -> Json:
    """Return a schema with `$` instead of `\\Z` in patterns, as other languages expect."""
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
    for schema_name in SCHEMAS:
        Path(*sys.argv[1:] or ["docs/reference"], schema_name).write_bytes(render_schema(schema_name))
