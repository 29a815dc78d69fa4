"""What a new workspace has in it: an agent that runs with no key and no network, and one for a real model."""

from collections.abc import Mapping
from typing import Final

FOLDERS: Final = ("agents", "tools", "skills")

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
_ASSISTANT_COMMENTS: Final = """\
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

FILES: Final[Mapping[str, str]] = {
    "agents/hello/agent.json": _HELLO,
    "agents/hello/AGENT.md": _HELLO_INSTRUCTIONS,
    "agents/hello/script.json": _HELLO_SCRIPT,
    "agents/assistant/agent.json": _ASSISTANT,
    "agents/assistant/AGENT.md": _ASSISTANT_INSTRUCTIONS,
    "agents/assistant/README.md": _ASSISTANT_COMMENTS,
    "settings.json": _SETTINGS,
}
