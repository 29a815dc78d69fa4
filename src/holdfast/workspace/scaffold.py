"""What a new workspace has in it: one agent that runs with no key and no network."""

from collections.abc import Mapping
from typing import Final

FOLDERS: Final = ("agents", "tools", "skills")

_AGENT: Final = """\
{
  "model": "scripted:script.json",
  "description": "Says hello. Its model is a script, so it needs no key and no network."
}
"""

_INSTRUCTIONS: Final = """\
# Hello

You greet people. Repeat what they said, in one sentence, and wish them well.
"""

_SCRIPT: Final = """\
{
  "turns": [
    {
      "say": "Hello! You said: {$last_user}. Name a real model in my agent.json, and I will think about it.",
      "chunks": 8
    }
  ],
  "after_last": "repeat"
}
"""

_SETTINGS: Final = """\
{
  "default_agent": "hello"
}
"""

FILES: Final[Mapping[str, str]] = {
    "agents/hello/agent.json": _AGENT,
    "agents/hello/AGENT.md": _INSTRUCTIONS,
    "agents/hello/script.json": _SCRIPT,
    "settings.json": _SETTINGS,
}
