"""The skills of a run: chosen before its first model call, and rendered for each prompt.

    catalog ──► available ──► named by the agent, or relevant to the request ──► within the token budget ──► prompt

The choice is the run value `skills`. It is made once per run: a worker that takes over after a crash finds it.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.agent.context.system_prompt import PromptSkill
from holdfast.agent.run_context import RunContext, mark_tainted
from holdfast.domain.content import plain_text
from holdfast.domain.errors import NotFound
from holdfast.domain.events.custom import SkillsChosen
from holdfast.domain.ids import SkillId
from holdfast.domain.message import Message, Role
from holdfast.domain.run_skills import (
    SKILLS_VALUE,
    ActivationCause,
    ActiveSkill,
    LeftOutSkill,
    RunSkills,
    read_run_skills,
)
from holdfast.domain.skill import Skill, SkillSource
from holdfast.domain.untrusted import taint_source_name
from holdfast.skills.catalog import Availability, CatalogEntry, SkillCatalog, active_skill
from holdfast.skills.choice import Segment
from holdfast.skills.locale import resolve_locale
from holdfast.skills.prompt import SkillRenderer, left_out_note
from holdfast.tools.permissions.rules import BASH_TOOL
from holdfast.tools.run_catalogs import RunCatalog, RunCatalogs

MESSAGE_WEIGHTS: Final = (1.0, 0.9, 0.6, 0.4, 0.25)
"""Weights of the last messages of the user, the newest first: a follow-up keeps the skill of the message before it."""
THREAD_WEIGHT: Final = 0.3
"""Weight of the thread's title, summary and key points."""
MAX_KEY_POINTS: Final = 8
INPUT_KEYS: Final = ("task", "goal", "prompt", "title", "description")
"""Fields of a run's input that say what it is about."""


class SkillStep:
    """Chooses the skills of one run, and renders them for its prompts."""

    def __init__(self, ctx: RunContext, catalogs: RunCatalogs, renderer: SkillRenderer) -> None:
        self._ctx = ctx
        self._catalogs = catalogs
        self._renderer = renderer
        self._found: RunCatalog | None = None
        self._versions: dict[tuple[SkillId, int], Skill | None] = {}
        """Custom skills that have changed since the run chose them, as they were then."""

    async def prepare(self) -> None:
        """Choose the skills of the run, unless that was done, and render them for the next model call."""
        ctx = self._ctx
        if not ctx.agent.skills:
            return
        if self._found is None:
            self._found = await self._catalogs.of_run(ctx.lease, ctx.agent, ctx.values)
        permitted = self._permitted(self._found.catalog)
        skills = read_run_skills(ctx.values)
        if skills is None or skills.run_id != ctx.run.id:
            skills = self._choose(self._found, permitted, earlier=skills)
        active = [(each, await self._as_chosen(self._found.catalog, each)) for each in skills.active]
        self._render(active, permitted, skills)
        if any(each.allowed_tools is not None for each in skills.active) or ctx.permission_chain.restrictions:
            ctx.update_agent()  # an active skill narrows the tools

    def _permitted(self, catalog: SkillCatalog) -> "_PermittedSkills":
        """Return the skills that the agent may use."""
        ctx, choice = self._ctx, self._ctx.agent.skills
        servers = frozenset(each.server for each in ctx.unavailable_servers)
        names = None if isinstance(choice, str) else tuple(choice)
        return _permitted_skills(catalog, ctx.toolset.names, servers, names)

    def _choose(self, found: RunCatalog, permitted: "_PermittedSkills", *, earlier: RunSkills | None) -> RunSkills:
        """Choose the skills of the run, and record the choice."""
        ctx, index, usable = self._ctx, found.catalog.index, permitted.by_name
        active: list[ActiveSkill] = []
        left_out: list[LeftOutSkill] = []
        if ctx.agent.skills == "auto":
            segments = self._segments()
            newest = [each for each in segments if each.weight == 1.0]
            fitting = index.choose(newest)
            said = "\n".join(each.text for each in newest)
            if not fitting and any(each.text.rstrip("…") not in said for each in segments):  # a title may repeat it
                fitting = index.choose(segments)
            for scored in fitting:
                if scored.skill.name in usable:
                    reasons, score = scored.reasons, scored.score
                    active.append(active_skill(scored.skill, ActivationCause.RELEVANT, score=score, reasons=reasons))
        else:
            for name in self._named(found, usable):
                if name in usable:
                    active.append(active_skill(usable[name], ActivationCause.NAMED))
                else:
                    left_out.append(LeftOutSkill(name=name, reason=_unusable_reason(name, permitted.entries)))
        chosen = {each.name for each in active}
        for one in earlier.active if earlier is not None else ():
            if one.cause is ActivationCause.ACTIVATED and one.name in usable and one.name not in chosen:
                active.append(active_skill(usable[one.name], ActivationCause.ACTIVATED))
        skills = RunSkills(run_id=ctx.run.id, locale=self._locale(found), active=active, left_out=left_out)
        ctx.set_values({SKILLS_VALUE: msgspec.to_builtins(skills)})
        if active or left_out:
            ctx.writer.emit_custom(SkillsChosen(locale=skills.locale, active=active, left_out=left_out))
        return skills

    def _named(self, found: RunCatalog, usable: dict[str, Skill]) -> list[str]:
        """Return the skills that the agent names; of all skills, the most relevant first."""
        if not isinstance(self._ctx.agent.skills, str):
            return self._ctx.agent.skills
        scores = {each.skill.name: each.score for each in found.catalog.index.score(self._segments())}
        return sorted(usable, key=lambda name: (-scores.get(name, 0.0), -usable[name].priority, name))

    def _locale(self, found: RunCatalog) -> str:
        ctx = self._ctx
        request = ctx.values.get("request")
        return resolve_locale(
            run_input=ctx.run.input,
            thread=ctx.thread.locale,
            space=found.locale or ctx.agent.locale,
            request=request.get("locale") if isinstance(request, dict) else None,
            texts=[plain_text(message.content) for message in self._user_messages()],
        )

    def _user_messages(self) -> list[Message]:
        """Return the last messages of the user, the newest first."""
        messages = [each for each in reversed(self._ctx.conversation.messages) if each.role is Role.USER]
        goal = self._ctx.conversation.goal
        return messages[: len(MESSAGE_WEIGHTS)] or ([goal] if goal is not None else [])

    def _segments(self) -> list[Segment]:
        """Return the texts that the choice is made by."""
        run_input, thread = self._ctx.run.input, self._ctx.thread
        segments = [
            Segment(plain_text(message.content), weight)
            for message, weight in zip(self._user_messages(), MESSAGE_WEIGHTS, strict=False)
        ]
        if isinstance(run_input, dict):
            segments += [Segment(text, 1.0) for key in INPUT_KEYS if isinstance(text := run_input.get(key), str)]
        about = [thread.title, thread.summary, *thread.key_points[:MAX_KEY_POINTS]]
        return [*segments, *(Segment(text, THREAD_WEIGHT) for text in about if text)]

    async def _as_chosen(self, catalog: SkillCatalog, active: ActiveSkill) -> Skill | None:
        """Return an active skill, a custom one in the version that was chosen; null if it was deleted."""
        found = catalog.find(active)
        if active.source is not SkillSource.SPACE or (found is not None and found.digest == active.digest):
            return found
        key = active.id, active.version
        if key not in self._versions:
            with suppress(NotFound):
                found = await self._catalogs.version(self._ctx.lease, *key)
            self._versions[key] = found if found is not None and found.digest == active.digest else None
        return self._versions[key]

    def _render(
        self, found: Sequence[tuple[ActiveSkill, Skill | None]], permitted: "_PermittedSkills", skills: RunSkills
    ) -> None:
        """Render the catalog and the active skills, each within its budget."""
        ctx, settings, renderer = self._ctx, self._ctx.agent.skill_settings, self._renderer
        mark_tainted(ctx, permitted.untrusted_sources)
        prompt_skills, folders, left_out, budget = [], [], list(skills.left_out), settings.active_tokens
        for active, skill in found:
            problem = "it does not exist any more"
            if skill is not None:
                text = skill.in_locale(skills.locale).instructions
                notes = renderer.skill_notes(skill, BASH_TOOL in ctx.toolset.names)
                tokens = renderer.count_tokens(text) + renderer.count_tokens(notes)
                problem = f"it has about {tokens} tokens, and {budget} of {settings.active_tokens} are left"
                if tokens <= budget:
                    budget -= tokens
                    untrusted = skill.source is SkillSource.FOLDER
                    prompt_skills.append(PromptSkill(name=skill.name, text=text, notes=notes, untrusted=untrusted))
                    folders += [] if skill.folder is None else [skill.folder]
                    continue
            if active.name not in {each.name for each in left_out}:
                left_out.append(LeftOutSkill(name=active.name, reason=problem))
        if len(left_out) > len(skills.left_out):
            skills = replace(skills, left_out=left_out)
            ctx.set_values({SKILLS_VALUE: msgspec.to_builtins(skills)})
            ctx.writer.emit_custom(SkillsChosen(locale=skills.locale, active=skills.active, left_out=left_out))
        ctx.prompt_skills = prompt_skills
        ctx.skill_folders = folders
        ctx.skill_catalog = permitted.catalog_text(renderer, skills.locale, settings.catalog_tokens)
        ctx.skills_left_out = left_out_note([f"{each.name} ({each.reason})" for each in left_out])


class _PermittedSkills:
    """The skills that an agent may use, as far as they can be used now, for all its runs until something changes."""

    def __init__(self, entries: Sequence[CatalogEntry]) -> None:
        self.entries = entries
        self.by_name = {entry.skill.name: entry.skill for entry in entries if _is_usable(entry)}
        """Those that can be used."""
        untrusted = [skill.name for skill in self.by_name.values() if skill.source is SkillSource.FOLDER]
        self.untrusted_sources = [taint_source_name("skill", name) for name in untrusted]
        self._texts: dict[tuple[str, int], str] = {}

    def catalog_text(self, renderer: SkillRenderer, locale: str, max_tokens: int) -> str:
        """Return the lines of the catalog."""
        text = self._texts.get((locale, max_tokens))
        if text is None:
            text = renderer.catalog_lines(list(self.by_name.values()), locale, max_tokens)
            self._texts[locale, max_tokens] = text
        return text


@lru_cache(maxsize=256)
def _permitted_skills(
    catalog: SkillCatalog, tools: frozenset[str], unavailable_servers: frozenset[str], names: tuple[str, ...] | None
) -> _PermittedSkills:
    entries = catalog.entries(tools, unavailable_servers)
    return _PermittedSkills([each for each in entries if names is None or each.skill.name in names])


def _is_usable(entry: CatalogEntry) -> bool:
    return entry.shadowed_by is None and entry.availability is not Availability.UNAVAILABLE


def _unusable_reason(name: str, entries: Sequence[CatalogEntry]) -> str:
    found = next((each for each in entries if each.skill.name == name and each.shadowed_by is None), None)
    return "; ".join(found.reasons) if found is not None else "its files are invalid, or it does not exist"
