"""The files of an agent: `agents/<name>/` with `agent.json`, `AGENT.md` and perhaps `SOUL.md`."""

import re
from collections.abc import Collection
from hashlib import sha256
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.domain.agent import (
    DEFAULT_WORKING_FOLDER,
    Agent,
    ModeSettings,
    Permissions,
    TaintPolicy,
    ThinkingLevel,
    UnknownOutcome,
    check_agent_name,
)
from holdfast.domain.errors import Invalid
from holdfast.domain.limits import Limits
from holdfast.domain.mcp_server import McpServer, McpServerName
from holdfast.domain.working_path import FolderName
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS
from holdfast.workspace.folder import Workspace
from holdfast.workspace.rule_files import check_rules
from holdfast.workspace.text_files import file_name, printable, read_optional_text, read_text, refuse
from holdfast.workspace.typed_json import decode

FILES: Final = ("agent.json", "AGENT.md", "SOUL.md")
"""What an agent is read from; anything else in its folder is its own business."""
MAX_MODELS: Final = 8
MAX_DESCRIPTION: Final = 2_000

_MODEL: Final = r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}:[^\x00-\x1f]{1,256}\Z"
_MODEL_IN_WORDS: Final = "`provider:name`, such as `openai:gpt-5` or `scripted:script.json`"

ModelName: TypeAlias = Annotated[str, Meta(pattern=_MODEL, extra={"expected": _MODEL_IN_WORDS})]
# Where a text with a pattern and a list are alternatives, msgspec 0.22 frees what it does not own. So here the pattern
# is for the schema, and the text is checked in code.
_OneModel: TypeAlias = Annotated[str, Meta(extra_json_schema={"pattern": _MODEL})]
ToolName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z_][A-Za-z0-9_-]{0,63}\*?|\*)\Z",
        extra={"expected": "the name of a tool, such as `ask_user`, or the beginning of some, such as `plan_*`"},
    ),
]
Name: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z",
        extra={"expected": "1 to 64 letters, digits, `_` or `-`, beginning with a letter or a digit"},
    ),
]
Description: TypeAlias = Annotated[
    str,
    Meta(max_length=MAX_DESCRIPTION, pattern=r"^[^\x00]*\Z", extra={"expected": "a text without a NUL character"}),
]


class AgentFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `agent.json` may say."""

    schema_: Annotated[str | None, Meta(description="Where an editor finds this schema; it means nothing else.")] = (
        msgspec.field(name="$schema", default=None)
    )
    model: Annotated[
        _OneModel | Annotated[list[ModelName], Meta(min_length=1, max_length=MAX_MODELS)],
        Meta(description="The model, `provider:name`; or a list: the model, and those to fall back on, in order."),
    ]
    description: Annotated[
        Description, Meta(description="What the agent is good for: people and other agents choose it by this.")
    ] = ""
    chat: Annotated[ModeSettings, Meta(description="Conversations with a person.")] = ModeSettings()
    task: Annotated[ModeSettings, Meta(description="Work that is handed over.")] = ModeSettings()
    daemon: Annotated[ModeSettings, Meta(description="Work on a schedule.")] = ModeSettings(enabled=False)
    tools: Annotated[list[ToolName], Meta(description="The tools that the agent may use.")] = []
    tools_shown: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="How many tools its model is shown at once, unless it is as the settings say."),
    ] = None
    permissions: Annotated[Permissions, Meta(description="Which calls are refused, approved or made.")] = Permissions()
    limits: Annotated[Limits, Meta(description="What a run may use, where it does not say so itself.")] = Limits()
    unknown_outcome: Annotated[
        UnknownOutcome,
        Meta(description="What to do when a crash cut a call off: tell the model, ask a person, or fail the run."),
    ] = UnknownOutcome.TELL
    tainted: Annotated[
        TaintPolicy,
        Meta(
            description="What to do about calls that reach beyond the workspace, once a run has read what others "
            "wrote: ask a person, or do as the rules say."
        ),
    ] = TaintPolicy.ASK
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=2)] | None, Meta(description="How freely the model chooses its words.")
    ] = None
    thinking: Annotated[
        ThinkingLevel | None, Meta(description="Whether the model thinks before it answers, and how hard.")
    ] = None
    mcp_servers: Annotated[
        dict[McpServerName, McpServer], Meta(description="MCP servers whose tools the agent may use, by name.")
    ] = {}
    skills: Annotated[list[Name], Meta(description="Skills that are active from the start.")] = []
    working_folder: Annotated[
        FolderName, Meta(description="Where its file tools work: a folder of the workspace that is not one of its own.")
    ] = DEFAULT_WORKING_FOLDER

    def __post_init__(self) -> None:
        if isinstance(self.model, str) and re.match(_MODEL, self.model) is None:
            raise Invalid(f"expected {_MODEL_IN_WORDS}", field="model")


def read_agent(workspace: Workspace, name: str, *, known: Collection[str] = KNOWN_TOOLS) -> Agent:
    """Return the agent that the files of `agents/<name>` define, or raise `Invalid` that names file and key.

    `known` are the tools that rules may be about.
    """
    folder = workspace.agents / name
    _check_name(name)
    settings, instructions = (read_text(folder / file, root=workspace.path) for file in FILES[:2])
    soul = read_optional_text(folder / FILES[2], root=workspace.path)
    if not instructions.strip():
        refuse(file_name(folder / FILES[1], root=workspace.path), "is empty: write what the agent is to do")
    json = file_name(folder / FILES[0], root=workspace.path)
    file = decode(settings, AgentFile, file=json)
    check_rules(file.permissions, settings, file=json, known=known)
    return Agent(
        name=name,
        description=file.description,
        models=[file.model] if isinstance(file.model, str) else file.model,
        instructions=instructions.strip(),
        soul=(soul or "").strip() or None,
        chat=file.chat,
        task=file.task,
        daemon=file.daemon,
        tools=list(dict.fromkeys(file.tools)),
        tools_shown=file.tools_shown,
        permissions=file.permissions,
        limits=file.limits,
        unknown_outcome=file.unknown_outcome,
        tainted=file.tainted,
        temperature=file.temperature,
        thinking=file.thinking,
        mcp_servers=file.mcp_servers,
        skills=list(dict.fromkeys(file.skills)),
        working_folder=file.working_folder,
        folder=str(folder),
        digest=_digest(settings, instructions, soul),
    )


def _check_name(name: str) -> None:
    try:
        check_agent_name(name)
    except Invalid as exc:
        refuse(printable(f"agents/{name}"), f"{exc.message}: rename the folder", cause=exc)


def _digest(*texts: str | None) -> str:
    return sha256(msgspec.json.encode(texts)).hexdigest()
