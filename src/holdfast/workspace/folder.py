"""The folder of a workspace: its layout, and the files of a new one.

    agents/          one folder per agent
    tools/ skills/   shared by all agents
    settings.json    settings of all agents
    permissions.json calls that the operator allows in every space
    .holdfast/       data of Holdfast itself, ignored by git

People own all of it but the last. A new workspace has one agent that needs no key and no network, and one for a
real model.
"""

import json
import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from holdfast.domain.agent import check_agent_name
from holdfast.domain.errors import Conflict, NotFound, Unavailable
from holdfast.domain.packages import install_command

_OWNER_ONLY: Final = 0o700
"""The database holds conversations, so only its owner may read it."""


class Workspace:
    """The paths of a workspace, a folder that contains `agents/`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        self.agents = self.path / "agents"
        self.tools = self.path / "tools"
        self.skills = self.path / "skills"
        self.settings = self.path / "settings.json"
        self.permissions = self.path / "permissions.json"
        self.data_folder = self.path / ".holdfast"
        self.database = self.data_folder / "holdfast.db"
        """The default store; it may be PostgreSQL instead."""
        self.files = self.data_folder / "files"
        """Contents of artifacts and uploads."""
        self.logs = self.data_folder / "logs"
        try:
            found = self.agents.is_dir()
        except OSError as exc:
            raise Unavailable(f"cannot read the folder `{path}`: {exc.strerror or exc}") from exc
        if not found:
            remedy = f"create one with `holdfast init {shlex.quote(str(path))}`"
            raise NotFound(f"`{path}` is not a workspace, it has no folder `agents`: {remedy}")

    @classmethod
    def create(cls, path: str | Path) -> Self:
        """Create a workspace at `path` without overwriting anything."""
        folder = Path(path)
        existing = [name for name in (*SCAFFOLD_FOLDERS, *SCAFFOLD_FILES) if os.path.lexists(folder / name)]
        if existing:
            raise Conflict(f"`{path}` has `{existing[0]}` already: choose another folder, or use it as it is")
        try:
            for name in SCAFFOLD_FOLDERS:
                (folder / name).mkdir(parents=True)
            for name, text in SCAFFOLD_FILES.items():
                (folder / name).parent.mkdir(exist_ok=True)
                _write_new(folder / name, text)
        except OSError as exc:
            raise Unavailable(f"cannot create a workspace at `{path}`: {exc.strerror or exc}") from exc
        return cls(path)

    def create_agent(self, name: str, *, model: str, description: str = "") -> Path:
        """Create the folder of an agent with files to edit, and return it; one that exists is left alone."""
        folder = self.agents / check_agent_name(name)
        fields = {
            "model": model,
            **({"description": description} if description else {}),
            "tools": [],
            "skills": "auto",
        }
        try:
            folder.mkdir()
            _write_new(folder / "agent.json", json.dumps(fields, indent=2, ensure_ascii=False) + "\n")
            _write_new(folder / "AGENT.md", f"# {name}\n\n{description or 'Say here what the agent does, and how.'}\n")
        except FileExistsError as exc:
            raise Conflict(f"`{folder}` exists already: choose another name, or edit its files") from exc
        except OSError as exc:
            raise Unavailable(f"cannot create `{folder}`: {exc.strerror or exc}") from exc
        return folder

    def prepare(self) -> None:
        """Create the data folders of Holdfast if they do not exist."""
        try:
            self.data_folder.mkdir(mode=_OWNER_ONLY, exist_ok=True)
            self.files.mkdir(exist_ok=True)
            self.logs.mkdir(exist_ok=True)
            with suppress(FileExistsError):
                _write_new(self.data_folder / ".gitignore", "*\n")
        except OSError as exc:
            raise Unavailable(f"cannot use `{self.data_folder}`: {exc.strerror or exc}") from exc


def _write_new(file: Path, text: str) -> None:
    with file.open("x", encoding="utf-8") as new:
        new.write(text)


SCAFFOLD_FOLDERS: Final = ("agents", "tools", "skills")

_HELLO: Final = """\
{
  "model": "scripted:script.json",
  "description": "Says hello. Its model is a script, so it needs no key and no network.",
  "task": {"enabled": true}
}
"""

_HELLO_INSTRUCTIONS: Final = """\
# Hello

You greet people. Repeat what they said, in one sentence, and wish them well.
"""

_HELLO_SCRIPT: Final = """\
{
  "turns": [
    {
      "say": "Hello! You said: {$last_user}. I follow a script; the agent `assistant` beside me can think.",
      "chunks": 8
    }
  ],
  "after_last": "repeat"
}
"""

_ASSISTANT: Final = """\
{
  "model": "mine:gpt-5",
  "description": "Answers with a real model, once it has a key: see README.md beside this file.",
  "task": {"enabled": true},
  "tools": ["create_artifact", "skill_activate", "skill_describe"],
  "skills": "auto"
}
"""

_ASSISTANT_INSTRUCTIONS: Final = """\
# Assistant

You help people with their requests. Keep answers short, say so when you do not know, and never make anything up.
"""

# JSON has no comments, and the model reads all of AGENT.md, so the explanation is in a file of its own.
_ASSISTANT_README: Final = f"""\
# How to give this agent a model

Neither Holdfast nor a model reads this file. Three values matter.

**The key.** It is in the environment of the server process, never in a file. Stop the server, and in the folder that
contains `settings.json`:

    export OPENAI_API_KEY=...
    holdfast serve --workspace .

`settings.json` names the variable, in `providers.mine.api_key_env`. Change it if your variable has another name.

**The model.** `agent.json`, beside this file, has `"model": "mine:gpt-5"`. The part before the colon is a provider in
`settings.json`, the part after it is the provider's name of the model. A change takes effect immediately.

**The URL.** `settings.json` has `"base_url": "https://api.openai.com/v1"`. For your own OpenAI-compatible server
(Ollama, vLLM, llama.cpp, LiteLLM), set its URL, and omit `api_key_env` if it needs no key:

    "mine": {{"api": "openai", "base_url": "http://127.0.0.1:11434/v1"}}

with `"model": "mine:qwen3"`, for example. For Anthropic, set `"api": "anthropic"` and the URL
`https://api.anthropic.com`. Providers are read when the server starts: restart it after a change.

The packages of providers are extras: `{install_command("openai")}` or `{install_command("anthropic")}`.

Then talk to it:

    holdfast chat assistant

If something is missing, the response says what.
"""

_SETTINGS: Final = """\
{
  "default_agent": "hello",
  "providers": {
    "mine": {
      "api": "openai",
      "base_url": "https://api.openai.com/v1",
      "api_key_env": "OPENAI_API_KEY"
    }
  }
}
"""

SCAFFOLD_FILES: Final[Mapping[str, str]] = {
    "agents/hello/agent.json": _HELLO,
    "agents/hello/AGENT.md": _HELLO_INSTRUCTIONS,
    "agents/hello/script.json": _HELLO_SCRIPT,
    "agents/assistant/agent.json": _ASSISTANT,
    "agents/assistant/AGENT.md": _ASSISTANT_INSTRUCTIONS,
    "agents/assistant/README.md": _ASSISTANT_README,
    "settings.json": _SETTINGS,
}
