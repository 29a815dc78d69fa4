"""Agents that a program defines: `holdfast.Agent`, with the keys of `agent.json` as arguments."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from holdfast.domain.agent import Permissions, TaintPolicy, ThinkingLevel, UnknownOutcome, check_agent_name
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.limits import Limits
from holdfast.domain.mcp_server import McpServer
from holdfast.domain.skill import ContractPolicy
from holdfast.tools.function_tool import check_tool
from holdfast.tools.json_schema import compile_schema
from holdfast.tools.python_types import json_schema
from holdfast.tools.tool import Tool
from holdfast.workspace.agent_file import AgentFile
from holdfast.workspace.agents import AgentSource, agent_files, make_agent
from holdfast.workspace.folder import Workspace
from holdfast.workspace.json_files import decode_json


class CodeAgent:
    """An agent in Python, for `holdfast.open(…, agents=[…])`; exported as `holdfast.Agent`.

    `tools` are functions with `@tool`, or names of other tools such as `read_file` and `plan_*`. `output` is the type
    or the JSON Schema of the final answer. The path of a `scripted:` model is relative to the workspace.
    """

    def __init__(
        self,
        name: str,
        *,
        instructions: str,
        model: str | Sequence[str],
        description: str = "",
        tools: Sequence[Tool | str] = (),
        output: Any = None,
        soul: str | None = None,
        permissions: Permissions | Mapping[str, Sequence[str]] | None = None,
        limits: Limits | Mapping[str, Json] | None = None,
        temperature: float | None = None,
        thinking: ThinkingLevel | None = None,
        mcp_servers: Mapping[str, McpServer | Mapping[str, Json]] | None = None,
        working_folder: str | None = None,
        unknown_outcome: UnknownOutcome | str | None = None,
        tainted: TaintPolicy | str | None = None,
        skills: Sequence[str] | str = (),
        contract: ContractPolicy | str | None = None,
    ) -> None:
        self.name = check_agent_name(name)
        self.tools = [tool for tool in tools if not isinstance(tool, str)]
        """The tools of this process that the agent uses."""
        if not instructions.strip():
            raise Invalid(f"agent `{name}` has no instructions: say what it is for", field="instructions")
        self._texts = (instructions, soul)
        values = {
            "model": model if isinstance(model, str) else list(model),
            "description": description,
            "tools": [tool if isinstance(tool, str) else check_tool(tool).spec.name for tool in tools],
            "output": None if output is None else _schema(output, name),
            "permissions": permissions,
            "limits": limits,
            "temperature": temperature,
            "thinking": thinking,
            "mcp_servers": mcp_servers,
            "working_folder": working_folder,
            "unknown_outcome": unknown_outcome,
            "tainted": tainted,
            "skills": skills if isinstance(skills, str) else list(skills),
            "contract": contract,
        }
        self._text = msgspec.json.encode({key: value for key, value in values.items() if value is not None}).decode()
        self._file = decode_json(self._text, AgentFile, file=f'Agent("{name}")')

    def source(self, workspace: Workspace) -> AgentSource:
        """Return the agent with the files that would define it; a folder of the same name is a conflict."""
        if (workspace.agents / self.name).exists():
            raise Invalid(f"`agents/{self.name}` exists, and the program defines `{self.name}` too: rename one of them")
        instructions, soul = self._texts
        agent = make_agent(
            self.name,
            self._file,
            instructions=instructions,
            soul=soul,
            heartbeat_prompts={},
            folder=workspace.path,
            digest=sha256(msgspec.json.encode((self._text, instructions, soul))).hexdigest(),
        )
        return AgentSource(agent, agent_files(self.name, self._text, instructions, soul, {}))


def _schema(output: Any, agent: str) -> dict[str, Json]:
    schema = dict(output) if isinstance(output, Mapping) else json_schema(output)
    try:
        compile_schema(msgspec.json.encode(schema))
    except (Invalid, ValueError) as exc:
        raise Invalid(f"`output` of agent `{agent}` cannot be used as a JSON Schema: {exc}", field="output") from exc
    return schema
