"""Contracts of active skills: what a run produces is recorded as evidence, and checked when the run would end.

Evidence is part of the run value `skills`, in the same commit as the effect that it is about.
"""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from holdfast.agent.run_context import RunContext
from holdfast.domain.events.custom import FileChanged, SkillContractChecked, contract_checked
from holdfast.domain.message import ToolCall
from holdfast.domain.plan import Plan
from holdfast.domain.run_skills import (
    MAX_CONTRACT_REMINDERS,
    SKILLS_VALUE,
    ContractOutcome,
    Evidence,
    RunSkills,
    check_contracts,
    conclude_skills,
    read_run_skills,
    with_evidence,
)
from holdfast.domain.skill import ContractPolicy
from holdfast.tools.tool import ToolResult

REMINDER_TOOL = "set_reminder"


def record_evidence(ctx: RunContext, call: ToolCall, result: ToolResult) -> None:
    """Record what a settled call produced, if an active skill must produce something."""
    skills = _own_skills(ctx)
    if skills is None or not skills.has_contract or result.failed:
        return
    changed = with_evidence(skills, list(_evidence(call, result)))
    if changed is not skills:
        _store(ctx, changed)


def broken_contracts(ctx: RunContext) -> list[ContractOutcome]:
    """Return the contracts that are not kept now."""
    skills = _own_skills(ctx)
    if skills is None or not skills.has_contract:
        return []
    return [each for each in check_contracts(skills, _plan(ctx)) if not each.kept]


def missing_products(ctx: RunContext) -> list[str]:
    """Return what the model was told is missing, and still is."""
    skills = _own_skills(ctx)
    if skills is None or not skills.contract_reminders:
        return []
    return [f"{each.skill}: {missing}" for each in broken_contracts(ctx) for missing in each.missing]


def must_go_on(ctx: RunContext) -> bool:
    """Return whether the run goes on to keep a contract, and count that the model is told so."""
    skills = _own_skills(ctx)
    if ctx.agent.contract is not ContractPolicy.ENFORCE or skills is None or not broken_contracts(ctx):
        return False
    if skills.contract_reminders >= MAX_CONTRACT_REMINDERS:
        return False
    _store(ctx, replace(skills, contract_reminders=skills.contract_reminders + 1))
    return True


def conclude_contracts(ctx: RunContext) -> None:
    """Record the outcome of every contract, in the commit that ends the run."""
    skills = conclude_skills(ctx.values, run=ctx.run.id, plan=_plan(ctx))
    if skills is None:
        return
    _store(ctx, skills)
    ctx.writer.discard_custom(SkillContractChecked)
    ctx.writer.emit_custom(*map(contract_checked, skills.contracts))


def reopen_contracts(ctx: RunContext) -> None:
    """Take back the outcome of contracts, because the run goes on."""
    skills = _own_skills(ctx)
    if skills is not None and skills.contracts:
        _store(ctx, replace(skills, contracts=[]))
        ctx.writer.discard_custom(SkillContractChecked)


def _evidence(call: ToolCall, result: ToolResult) -> Iterator[Evidence]:
    for artifact in result.artifacts:
        yield Evidence(kind="artifact", id=artifact.id, type=artifact.type.value, title=artifact.title)
    for event in result.events:
        if isinstance(event, FileChanged):
            yield Evidence(kind="file", path=event.path)
    if call.name == REMINDER_TOOL:
        yield Evidence(kind="reminder", id=call.id)


def _own_skills(ctx: RunContext) -> RunSkills | None:
    if ctx.values.get(SKILLS_VALUE) is None:
        return None
    skills = read_run_skills(ctx.values)
    return skills if skills is not None and skills.run_id == ctx.run.id else None


def _plan(ctx: RunContext) -> Plan:
    value = ctx.values.get("plan")
    return Plan() if value is None else msgspec.convert(value, Plan)


def _store(ctx: RunContext, skills: RunSkills) -> None:
    ctx.set_values({SKILLS_VALUE: msgspec.to_builtins(skills)})
