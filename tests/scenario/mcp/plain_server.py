"""An MCP server without the SDK, of the protocol before 2026: it starts fast, and can misbehave.

    plain_server.py [state file]

The state file, if there is one, holds the description of the tool `turn`, as long as somebody else may change it.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
DOUBLED = {f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(40)}
OUTPUT_SCHEMAS: dict[str, Message] = {
    "slug": {"type": "object", "properties": {"slug": {"type": "string", "pattern": "^(a+)+$"}}},
    "doubled": {"type": "object", "$defs": {**DOUBLED, "d40": {"required": ["number"]}}, "$ref": "#/$defs/d0"},
}
"""Tools with structured content, whose schemas would take minutes to check."""
more: list[str] = []
refused: list[str] = []
"""Errors for listing tools, once each."""
postponed: list[Message] = []
"""Messages received during an elicitation."""


def main() -> None:
    """Serve requests until end of file."""
    for line in sys.stdin:
        postponed.append(json.loads(line))
        while postponed:
            message = postponed.pop(0)
            if "id" in message and "method" in message:
                answer(message)


def answer(message: Message) -> None:
    """Answer a request."""
    match message["method"]:
        case "initialize":
            capabilities = {"tools": {"listChanged": True}}
            info = {"name": "plain", "version": "1"}
            say(message, {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info})
        case "tools/list" if refused:
            write({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": refused.pop()}})
        case "tools/list":
            say(message, {"tools": tools()})
        case "tools/call":
            call(message)
        case other:
            write({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": f"no {other}"}})


def tools() -> list[Message]:
    """Return the current tools."""
    named = [
        {"name": name, "description": f"Does {name}.", "inputSchema": TEXT} for name in [*TOOLS, *BAD, "key", *more]
    ]
    named += [
        {"name": name, "description": f"Does {name}.", "inputSchema": TEXT, "outputSchema": schema}
        for name, schema in OUTPUT_SCHEMAS.items()
    ]
    state = Path(sys.argv[1]).read_text() if len(sys.argv) > 1 else "Turns."
    return [
        *(one for one in named if one["name"] != "turn"),
        {"name": "turn", "description": state, "inputSchema": TEXT},
    ]


def call(message: Message) -> None:
    """Run a tool."""
    name, text = message["params"]["name"], message["params"].get("arguments", {}).get("text", "")
    if name in TOOLS:
        tell(message, TOOLS[name](text))
    elif name in BAD:
        BAD[name](message)
    elif name in OUTPUT_SCHEMAS:
        say(message, {"content": [], "structuredContent": {"slug": text}})
    else:
        tell(message, json.dumps(message["params"]["_meta"]) if name == "key" else f"did {name}")


def die(message: Message) -> None:
    """Die in the middle of a call."""
    sys.stderr.write("it hurts")
    sys.stderr.flush()
    os._exit(3)


def stall(message: Message) -> None:
    """Read messages without responding; record cancellations."""
    effect("stalls")
    for line in sys.stdin:
        if json.loads(line).get("method") == "notifications/cancelled":
            effect("cancelled")
            return
    time.sleep(3600)


def notes(message: Message) -> None:
    """Send unsolicited messages endlessly."""
    while True:
        note("notifications/message", {"level": "info", "data": "again"})


def nonsense(message: Message) -> None:
    """Send invalid messages endlessly."""
    while True:
        sys.stdout.write("this is no message\n")


def surroundings(text: str) -> str:
    """Report the environment of the server."""
    there = sorted(path.name for path in Path(text or "/").iterdir())
    return json.dumps({"env": dict(os.environ), "cwd": str(Path.cwd()), "there": there})


def grow(text: str) -> str:
    """Add a tool."""
    more.append(text)
    note("notifications/tools/list_changed", {})
    return "grown"


def grow_unseen(text: str) -> str:
    """Add a tool, and fail the first listing."""
    refused.append("not now")
    return grow(text)


def effect(text: str) -> str:
    """Append a line to a file in the working folder, so that calls can be counted."""
    with open("ran", "a", encoding="utf-8") as opened:
        opened.write(f"{text}\n")
    return "done"


def slowly(text: str) -> str:
    """Do something slow."""
    effect(text)
    time.sleep(float(os.environ.get("SLOWLY", "0")))
    return "done"


def ask(number: int, text: str) -> Any:
    """Send an elicitation, and wait for the answer."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    effect(f"asked {number}")
    params = {"message": f"{text} {number}?", "requestedSchema": schema}
    write({"jsonrpc": "2.0", "id": f"ask-{number}", "method": "elicitation/create", "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            effect("cancelled")
            return None
        if message.get("id") == f"ask-{number}":
            return message.get("result", message.get("error"))
        postponed.append(message)
    return None


def tell(message: Message, text: str) -> None:
    """Answer a call with a text."""
    say(message, {"content": [{"type": "text", "text": text}]})


def say(message: Message, result: Any) -> None:
    """Answer a request."""
    write({"jsonrpc": "2.0", "id": message["id"], "result": result})


def note(method: str, params: Any) -> None:
    """Send a notification."""
    write({"jsonrpc": "2.0", "method": method, "params": params})


def write(message: Message) -> None:
    """Write a message."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


TOOLS: dict[str, Callable[[str], str]] = {
    "echo": str,
    "turn": str,
    "pid": lambda text: str(os.getpid()),
    "huge": lambda text: "x" * int(text),
    "surroundings": surroundings,
    "effect": effect,
    "slowly": slowly,
    "grow": grow,
    "grow_unseen": grow_unseen,
    "ask": lambda text: json.dumps(ask(1, text)),
    "ask_twice": lambda text: json.dumps([ask(1, text), ask(2, text)]),
}
BAD: dict[str, Callable[[Message], None]] = {
    "die": die,
    "stall": stall,
    "notes": notes,
    "nonsense": nonsense,
    "shapeless": lambda message: say(message, {"content": "no list", "isError": 7}),
}

if __name__ == "__main__":
    main()
