"""The skill tools: list, read and activate skills.

An agent sees the skills that its `skills` allow: all of them with `auto` and `*`, else those that it names.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, NotFound
from holdfast.domain.events.custom import SkillsChosen
from holdfast.domain.run_skills import SKILLS_VALUE, ActivationCause, RunSkills, read_run_skills
from holdfast.domain.skill import SkillSource
from holdfast.domain.tool import ToolClass
from holdfast.domain.untrusted import taint_source_name
from holdfast.skills.catalog import Availability, CatalogEntry, active_skill
from holdfast.skills.locale import resolve_locale
from holdfast.skills.prompt import SkillRenderer
from holdfast.tools.content import did_you_mean
from holdfast.tools.run_catalogs import RunCatalogs
from holdfast.tools.tool import Tool, ToolContext, ToolResult
from holdfast.tools.typed_tool import ToolArguments, TypedTool, tool_spec

MAX_ACTIVE_SKILLS: Final = 32
_OUTPUT_LIMIT_CHARS: Final = 64 * 1024
_Locale = Annotated[
    Annotated[str, Meta(max_length=35)] | None, Meta(description="A language, such as `en` or `ja`; yours by default.")
]


class SkillListArguments(ToolArguments, frozen=True, kw_only=True):
    """List the custom skills of this space."""


class SkillGetArguments(ToolArguments, frozen=True, kw_only=True):
    """Read one skill with its instructions, by its id."""

    skill_id: Annotated[str, Meta(min_length=1, max_length=256, description="The id of the skill.")]


class SkillCatalogArguments(ToolArguments, frozen=True, kw_only=True):
    """List every skill that you may use, from all sources, with whether it can be used now."""

    locale: _Locale = None


class SkillContextArguments(ToolArguments, frozen=True, kw_only=True):
    """List the skills that you may use, with the text that a prompt contains about them."""

    locale: _Locale = None


class SkillDescribeArguments(ToolArguments, frozen=True, kw_only=True):
    """Read one skill with its instructions, by id or name; or one of its files."""

    skill_ref: Annotated[str, Meta(min_length=1, max_length=256, description="The id or name of the skill.")]
    source: Annotated[SkillSource | None, Meta(description="Only a skill of this source.")] = None
    locale: _Locale = None
    file: Annotated[
        Annotated[str, Meta(max_length=512)] | None,
        Meta(description="The path of one of its files, such as `references/style.md`."),
    ] = None


class SkillActivateArguments(ToolArguments, frozen=True, kw_only=True):
    """Activate a skill: its instructions are in your prompt from your next turn on, and stay there."""

    name: Annotated[str, Meta(min_length=1, max_length=128, description="The name of the skill.")]


SKILL_LIST_SPEC: Final = tool_spec(SkillListArguments, name="skill_list", kind=ToolClass.IDEMPOTENT, read_only=True)
SKILL_GET_SPEC: Final = tool_spec(
    SkillGetArguments,
    name="skill_get",
    kind=ToolClass.IDEMPOTENT,
    read_only=True,
    output_limit=_OUTPUT_LIMIT_CHARS,
)
SKILL_CATALOG_SPEC: Final = tool_spec(
    SkillCatalogArguments, name="skill_catalog", kind=ToolClass.IDEMPOTENT, read_only=True
)
SKILL_CONTEXT_SPEC: Final = tool_spec(
    SkillContextArguments, name="skill_context", kind=ToolClass.IDEMPOTENT, read_only=True
)
SKILL_DESCRIBE_SPEC: Final = tool_spec(
    SkillDescribeArguments,
    name="skill_describe",
    kind=ToolClass.IDEMPOTENT,
    read_only=True,
    output_limit=_OUTPUT_LIMIT_CHARS,
)
SKILL_ACTIVATE_SPEC: Final = tool_spec(SkillActivateArguments, name="skill_activate", kind=ToolClass.TRANSACTIONAL)
SKILL_SPECS: Final = (
    SKILL_ACTIVATE_SPEC,
    SKILL_CATALOG_SPEC,
    SKILL_CONTEXT_SPEC,
    SKILL_DESCRIBE_SPEC,
    SKILL_GET_SPEC,
    SKILL_LIST_SPEC,
)


class _SkillTools:
    def __init__(self, catalogs: RunCatalogs, renderer: SkillRenderer) -> None:
        self._catalogs = catalogs
        self._renderer = renderer

    async def list(self, call: ToolContext, arguments: SkillListArguments) -> ToolResult:
        entries = [each for each in await self._entries(call) if each.skill.source is SkillSource.SPACE]
        shown = [skill_object(each, locale=self._locale(call, None)) for each in entries]
        return _result({"skills": shown, "count": len(shown)}, entries)

    async def get(self, call: ToolContext, arguments: SkillGetArguments) -> ToolResult:
        found = next((each for each in await self._entries(call) if each.skill.id == arguments.skill_id), None)
        if found is None:
            raise NotFound(f"there is no skill with the id `{arguments.skill_id}`: `skill_catalog` lists them")
        return _result({"skill": skill_object(found, locale=self._locale(call, None), full=True)}, [found])

    async def catalog(self, call: ToolContext, arguments: SkillCatalogArguments) -> ToolResult:
        locale, entries = self._locale(call, arguments.locale), await self._entries(call)
        shown = [skill_object(each, locale=locale) for each in entries]
        return _result({"locale": locale, "available_skills": shown, "count": len(shown)}, entries)

    async def context(self, call: ToolContext, arguments: SkillContextArguments) -> ToolResult:
        locale, entries = self._locale(call, arguments.locale), await self._entries(call)
        usable = [each for each in entries if _is_usable(each)]
        skills = [each.skill for each in usable]
        text = self._renderer.catalog_lines(skills, locale, call.agent.skill_settings.catalog_tokens)
        shown = [skill_object(each, locale=locale) for each in usable]
        return _result({"locale": locale, "available_skills": shown, "count": len(shown), "context": text}, usable)

    async def describe(self, call: ToolContext, arguments: SkillDescribeArguments) -> ToolResult:
        locale, entries = self._locale(call, arguments.locale), await self._entries(call)
        entry = _find(entries, arguments.skill_ref, arguments.source)
        described: dict[str, Json] = {"skill": skill_object(entry, locale=locale, full=arguments.file is None)}
        if arguments.file is not None:
            content = await self._catalogs.file(call.lease, call.agent, call.values, entry.skill, arguments.file)
            described["file"] = {"path": arguments.file, "content": self._file_text(call, content)}
        return _result(described, [entry])

    async def activate(self, call: ToolContext, arguments: SkillActivateArguments) -> ToolResult:
        entry = _find(await self._entries(call), arguments.name, None)
        if not _is_usable(entry):
            raise Conflict(f"skill `{entry.skill.name}` cannot be used: {'; '.join(entry.reasons)}")
        skills = read_run_skills(call.values)
        if skills is None or skills.run_id != call.run.id:
            skills = RunSkills(run_id=call.run.id, locale=self._locale(call, None))
        content: dict[str, Json] = {"name": entry.skill.name, "active": True}
        if any(each.name == entry.skill.name for each in skills.active):
            return ToolResult(content=content)
        if len(skills.active) >= MAX_ACTIVE_SKILLS:
            raise Conflict(f"{MAX_ACTIVE_SKILLS} skills are active, which is the limit: use those")
        made = replace(skills, active=[*skills.active, active_skill(entry.skill, ActivationCause.ACTIVATED)])
        event = SkillsChosen(locale=made.locale, active=made.active, left_out=made.left_out)
        result = ToolResult(content=content, values={SKILLS_VALUE: msgspec.to_builtins(made)}, events=[event])
        return replace(result, untrusted=_untrusted([entry]))

    async def _entries(self, call: ToolContext) -> Sequence[CatalogEntry]:
        """Return the skills that the agent may use."""
        choice = call.agent.skills
        if not choice:
            raise Conflict(f"agent `{call.agent.name}` has no skills: set `skills` in its agent.json")
        found = await self._catalogs.of_run(call.lease, call.agent, call.values)
        entries = found.catalog.entries(call.tool_names())
        return entries if isinstance(choice, str) else [each for each in entries if each.skill.name in choice]

    def _locale(self, call: ToolContext, wanted: str | None) -> str:
        skills = read_run_skills(call.values)
        return resolve_locale(thread=wanted, space=None if skills is None else skills.locale)

    def _file_text(self, call: ToolContext, content: bytes) -> str:
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return f"[a binary file with {len(content)} bytes]"
        tokens, limit = self._renderer.count_tokens(text), call.agent.skill_settings.file_tokens
        if tokens <= limit:
            return text
        return f"{text[: len(text) * limit // tokens]}\n[about {tokens - limit} of {tokens} tokens are left out]"


def skill_tools(catalogs: RunCatalogs, renderer: SkillRenderer) -> list[Tool]:
    """Return the skill tools."""
    tools = _SkillTools(catalogs, renderer)
    return [
        TypedTool(SKILL_ACTIVATE_SPEC, SkillActivateArguments, run=tools.activate),
        TypedTool(SKILL_CATALOG_SPEC, SkillCatalogArguments, run=tools.catalog),
        TypedTool(SKILL_CONTEXT_SPEC, SkillContextArguments, run=tools.context),
        TypedTool(SKILL_DESCRIBE_SPEC, SkillDescribeArguments, run=tools.describe),
        TypedTool(SKILL_GET_SPEC, SkillGetArguments, run=tools.get),
        TypedTool(SKILL_LIST_SPEC, SkillListArguments, run=tools.list),
    ]


def skill_object(entry: CatalogEntry, *, locale: str, full: bool = False) -> dict[str, Json]:
    """Return a skill as tools and the API show it; only a `full` one has its instructions."""
    skill = entry.skill
    text = skill.in_locale(locale)
    shown: dict[str, Json] = {
        "id": skill.id,
        "name": skill.name,
        "description": text.description,
        "triggers": text.triggers,
        "metadata": {
            "locale": skill.locale if text.description == skill.description else locale,
            "category": skill.category,
            "activation_tags": skill.tags,
            "execution_contract": msgspec.to_builtins(skill.contract),
        },
        "source": skill.source.value,
        "editable": skill.source is SkillSource.SPACE,
        "enabled": True,
        "availability": entry.availability.value,
        "availability_reasons": entry.reasons,
    }
    if entry.shadowed_by is not None:
        shown["shadowed_by"] = entry.shadowed_by.value
    if full:
        shown["instructions"] = text.instructions
        shown["files"] = [file.path for file in skill.files]
    return shown


def _find(entries: Sequence[CatalogEntry], ref: str, source: SkillSource | None) -> CatalogEntry:
    """Return a skill by its id, or else the one that is used under a name."""
    of_source = [each for each in entries if source in (None, each.skill.source)]
    for entry in of_source:
        if entry.skill.id == ref:
            return entry
    named = sorted((each for each in of_source if each.skill.name == ref), key=lambda each: each.skill.source.rank)
    if named:
        return named[0]
    hint = did_you_mean(ref, [each.skill.name for each in of_source])
    raise NotFound(f"there is no skill `{ref}`{hint}: `skill_catalog` lists them", name=ref)


def _is_usable(entry: CatalogEntry) -> bool:
    return entry.shadowed_by is None and entry.availability is not Availability.UNAVAILABLE


def _untrusted(entries: Sequence[CatalogEntry]) -> str | None:
    name = next((each.skill.name for each in entries if each.skill.source is SkillSource.FOLDER), None)
    return None if name is None else taint_source_name("skill", name)


def _result(content: dict[str, Json], entries: Sequence[CatalogEntry]) -> ToolResult:
    return ToolResult(content=content, untrusted=_untrusted(entries))
