"""The content of `agent.json`, from a file or from a request, and the checks that both pass."""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.domain.agent import (
    DaemonSettings,
    MemorySettings,
    ModeSettings,
    Permissions,
    TaintPolicy,
    ThinkingLevel,
    UnknownOutcome,
)
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.limits import Limits
from holdfast.domain.mcp_server import McpServer, McpServerName
from holdfast.domain.skill import ContractPolicy, SkillName
from holdfast.domain.validation import ValidationMessage
from holdfast.domain.worker import DEFAULT_POOL, POOL_PATTERN
from holdfast.domain.working_path import WorkingFolderName
from holdfast.tools.content import did_you_mean
from holdfast.tools.json_schema import compile_schema
from holdfast.workspace.json_files import SchemaUrl, check_rules, decode_json, raise_invalid_key
from holdfast.workspace.settings import MODEL_EXPECTED, MODEL_PATTERN, ModelName
from holdfast.workspace.text_files import raise_invalid_file

MAX_MODELS: Final = 8
MAX_DESCRIPTION_CHARS: Final = 2_000

# msgspec 0.22 frees memory it does not own in a union of a list and a string with a pattern. So the pattern is only in
# the schema, and `__post_init__` checks the string.
_OneModel: TypeAlias = Annotated[str, Meta(extra_json_schema={"pattern": MODEL_PATTERN})]
ToolNamePattern: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z_][A-Za-z0-9_-]{0,63}\*?|\*)\Z",
        extra={"expected": "the name of a tool, such as `ask_user`, or a prefix, such as `plan_*`"},
    ),
]
Description: TypeAlias = Annotated[
    str,
    Meta(
        max_length=MAX_DESCRIPTION_CHARS, pattern=r"^[^\x00]*\Z", extra={"expected": "a text without a NUL character"}
    ),
]


class AgentFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of `agent.json`."""

    schema_: SchemaUrl = msgspec.field(name="$schema", default=None)
    model: Annotated[
        _OneModel | Annotated[list[ModelName], Meta(min_length=1, max_length=MAX_MODELS)],
        Meta(description="The model, `provider:name`; or a list of the model and its fallbacks, in order."),
    ]
    description: Annotated[
        Description, Meta(description="What the agent is for; people and other agents choose it by this text.")
    ] = ""
    chat: Annotated[ModeSettings, Meta(description="Conversations with a person.")] = ModeSettings()
    task: Annotated[ModeSettings, Meta(description="Tasks without a conversation.")] = ModeSettings()
    daemon: Annotated[DaemonSettings, Meta(description="Work on a schedule.")] = DaemonSettings(enabled=False)
    pool: Annotated[
        str,
        Meta(
            pattern=POOL_PATTERN,
            description="The pool of workers that execute its runs: those that claim from it, with `--pool`.",
            extra={"expected": "the name of a pool: lower-case letters, digits, `-` and `_`"},
        ),
    ] = DEFAULT_POOL
    tools: Annotated[list[ToolNamePattern], Meta(description="The tools that the agent may use.")] = []
    tools_shown: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="How many tools the model sees at once; by default as in `settings.json`."),
    ] = None
    permissions: Annotated[Permissions, Meta(description="Which calls are denied, require approval or run.")] = (
        Permissions()
    )
    limits: Annotated[Limits, Meta(description="Default limits of a run.")] = Limits()
    unknown_outcome: Annotated[
        UnknownOutcome,
        Meta(description="After a crash interrupted a call: tell the model, ask a person, or fail the run."),
    ] = UnknownOutcome.TELL
    tainted: Annotated[
        TaintPolicy,
        Meta(
            description="For calls that reach beyond the workspace, once a run has read untrusted text: require "
            "approval, or apply the rules as usual."
        ),
    ] = TaintPolicy.ASK
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=2)] | None, Meta(description="The sampling temperature of the model.")
    ] = None
    thinking: Annotated[ThinkingLevel | None, Meta(description="The reasoning effort of the model.")] = None
    output: Annotated[
        dict[str, Json] | None,
        Meta(description="The JSON Schema that the final answer of each run must match; by default it is any text."),
    ] = None
    mcp_servers: Annotated[
        dict[McpServerName, McpServer], Meta(description="MCP servers whose tools the agent may use, by name.")
    ] = {}
    skills: Annotated[
        Literal["*", "auto"] | list[SkillName],
        Meta(
            description="Skills: a list of names that are always active, `auto` for those that fit the request, or `*` "
            "for all."
        ),
    ] = []
    contract: Annotated[
        ContractPolicy,
        Meta(description="When the contract of an active skill is not kept: record it, or tell the model first."),
    ] = ContractPolicy.RECORD
    memory: Annotated[
        MemorySettings | None,
        Meta(description="What the agent is reminded of, and what is kept of its runs; by default nothing is."),
    ] = None
    working_folder: Annotated[
        WorkingFolderName | None,
        Meta(
            description="The folder of its file tools and commands, one per space: a folder of the workspace that is "
            "not a reserved one, or an absolute path that settings.json lists; by default `files` in the default "
            "space, and a folder per thread in others."
        ),
    ] = None

    def __post_init__(self) -> None:
        if isinstance(self.model, str) and re.match(MODEL_PATTERN, self.model) is None:
            raise Invalid(f"expected {MODEL_EXPECTED}", field="model")
        if any(re.match(MODEL_PATTERN, model) is None for model in self.distillers):
            raise Invalid(f"expected {MODEL_EXPECTED}", field="memory.distil.model")

    @property
    def distillers(self) -> list[str]:
        """The model that distils its runs, if it is not the agent's own."""
        distil = None if self.memory is None else self.memory.distillation
        return [] if distil is None or distil.model is None else [distil.model]

    @property
    def models(self) -> list[str]:
        """The model, then its fallbacks."""
        return [self.model] if isinstance(self.model, str) else self.model


def decode_agent_file(
    text: str, *, file: str, tool_names: Collection[str], skill_names: Callable[[], Collection[str]]
) -> AgentFile:
    """Return the content of `agent.json`, or raise `Invalid` with the key; rules may name only `tool_names`."""
    decoded = decode_json(text, AgentFile, file=file)
    check_rules(decoded.permissions, text, file=file, tool_names=tool_names)
    for problem in _unknown_skills(decoded, skill_names):
        raise_invalid_key(file, text, problem)
    try:
        if decoded.output is not None:
            compile_schema(msgspec.json.encode(decoded.output))
    except (Invalid, ValueError) as exc:
        raise_invalid_file(file, f"output: it cannot be used as a JSON Schema: {exc}", cause=exc)
    return decoded


def _unknown_skills(file: AgentFile, skill_names: Callable[[], Collection[str]]) -> Iterator[ValidationMessage]:
    """Yield a problem for each name in `skills` that no skill has."""
    named = [] if isinstance(file.skills, str) else file.skills
    known = frozenset(skill_names()) if named else frozenset()
    for index, skill in enumerate(named):
        if skill not in known:
            reason = (
                f"there is no skill `{skill}`{did_you_mean(skill, known)}: add `skills/{skill}/SKILL.md`, or remove it"
            )
            yield ValidationMessage(["skills", index], reason)
