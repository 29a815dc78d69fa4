"""The folder of a workspace: its layout, and the files of a new one.

    agents/          one folder per agent
    tools/ skills/   shared by all agents
    settings.json    settings of all agents
    permissions.json calls that people allowed permanently
    .holdfast/       data of Holdfast itself, ignored by git

People own all of it but the last. A new workspace has one agent that needs no key and no network, and one for a
real model.
"""

import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from holdfast.domain.errors import Conflict, NotFound, Unavailable

_OWNER_ONLY: Final = 0o700
"""The database holds what people said: it is for its owner only."""


class Workspace:
    """A folder with `agents/` in it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        try:
            found = self.agents.is_dir()
        except OSError as exc:
            raise Unavailable(f"cannot look into `{path}`: {exc.strerror or exc}") from exc
        if not found:
            make = f"make one with `holdfast init {shlex.quote(str(path))}`"
            raise NotFound(f"`{path}` is no workspace, it has no folder `agents`: {make}")

    @classmethod
    def create(cls, path: str | Path) -> Self:
        """Make a workspace at `path`: one agent needs no key, one is for a real model. Nothing there is touched."""
        folder = Path(path)
        there = [name for name in (*SCAFFOLD_FOLDERS, *SCAFFOLD_FILES) if os.path.lexists(folder / name)]
        if there:
            raise Conflict(f"`{path}` has `{there[0]}` already: choose another folder, or use it as it is")
        try:
            _write_scaffold(folder)
        except OSError as exc:
            raise Unavailable(f"cannot make a workspace at `{path}`: {exc.strerror or exc}") from exc
        return cls(path)

    @property
    def agents(self) -> Path:
        """One folder per agent."""
        return self.path / "agents"

    @property
    def tools(self) -> Path:
        """Tools that all agents may use."""
        return self.path / "tools"

    @property
    def skills(self) -> Path:
        """Skills that all agents may use."""
        return self.path / "skills"

    @property
    def settings(self) -> Path:
        """What holds for all agents."""
        return self.path / "settings.json"

    @property
    def permissions(self) -> Path:
        """What people allowed agents when they were asked."""
        return self.path / "permissions.json"

    @property
    def data_folder(self) -> Path:
        """What Holdfast itself keeps."""
        return self.path / ".holdfast"

    @property
    def database(self) -> Path:
        """The log, unless it is on a server."""
        return self.data_folder / "holdfast.db"

    @property
    def files(self) -> Path:
        """The bytes of artifacts and uploads."""
        return self.data_folder / "files"

    @property
    def logs(self) -> Path:
        """What processes say about themselves."""
        return self.data_folder / "logs"

    def prepare(self) -> None:
        """Make the folders that Holdfast itself keeps, if they are not there yet."""
        try:
            self.data_folder.mkdir(mode=_OWNER_ONLY, exist_ok=True)
            self.files.mkdir(exist_ok=True)
            self.logs.mkdir(exist_ok=True)
            with suppress(FileExistsError):
                _write_new(self.data_folder / ".gitignore", "*\n")
        except OSError as exc:
            raise Unavailable(f"cannot use `{self.data_folder}`: {exc.strerror or exc}") from exc


def _write_scaffold(folder: Path) -> None:
    for name in SCAFFOLD_FOLDERS:
        (folder / name).mkdir(parents=True)
    for name, text in SCAFFOLD_FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        _write_new(folder / name, text)


def _write_new(file: Path, text: str) -> None:
    with file.open("x", encoding="utf-8") as opened:
        opened.write(text)


SCAFFOLD_FOLDERS: Final = ("agents", "tools", "skills")

_HELLO: Final = """\
{
  "model": "scripted:script.json",
  "description": "Says hello. Its model is a script, so it needs no key and no network."
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
  "description": "Answers with a real model, once it has a key: README.md beside this file says how."
}
"""

_ASSISTANT_INSTRUCTIONS: Final = """\
# Assistant

You help people with what they ask. Answer shortly, say so when you do not know, and never make anything up.
"""

# JSON has no comments, and all of AGENT.md is told to the model: so they stand in a file of their own.
_ASSISTANT_README: Final = """\
# How to give this agent a model

Nothing here is read by Holdfast or by a model. Three values matter.

**The key.** It is in the environment of the process that serves, never in a file:

    export OPENAI_API_KEY=...
    holdfast serve --workspace .

`settings.json` names the variable, at `providers.mine.api_key_env`. Name another one if yours is called otherwise.

**The model.** `agent.json`, beside this file, says `"model": "mine:gpt-5"`. After the colon stands the name by which
your provider knows the model, before it a name of `providers` in `settings.json`. What you save is used at once.

**The address.** `settings.json` says `"base_url": "https://api.openai.com/v1"`. For a server of your own that speaks
like OpenAI (Ollama, vLLM, llama.cpp, LiteLLM), write its address, and leave `api_key_env` out if it wants no key:

    "mine": {"api": "openai", "base_url": "http://127.0.0.1:11434/v1"}

with `"model": "mine:qwen3"`, for example. For Anthropic, `"api": "anthropic"` and its address,
`https://api.anthropic.com`. Providers are read when the server starts: start it again.

The packages of the providers are extras: `pip install 'holdfast[openai]'` or `'holdfast[anthropic]'`.

Then ask it something:

    curl -s http://127.0.0.1:5050/agents/assistant/task -H 'Content-Type: application/json' -d '{"input": "Hi!"}'

If something is missing, the answer says what.
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
