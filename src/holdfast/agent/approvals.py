"""`ApprovalGate` decides every tool call of a message before any of them runs.

    allowed by a rule or by default ──► runs
    denied                          ──► a result for the model; the call never starts
    needs approval                  ──► all interrupts of the message open in one commit, and the run waits

Decisions are stored in a value of the run, from the commit that opens the interrupts until the calls have settled: a
worker that takes over after a crash asks nobody twice, and runs nothing that was denied.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.agent.approval_records import (
    ApprovalDecision,
    ApprovalResponse,
    ApprovalState,
    approval_interrupt,
    approval_key,
    load_decisions,
)
from holdfast.agent.endings import cancel_interrupt, open_interrupt, suspend, take_resume_cause
from holdfast.agent.inbox import hold_messages
from holdfast.agent.run_context import RunContext, ask_if_tainted, is_tainted
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, InboxNotEmpty, Invalid, LeaseLost, NotFound
from holdfast.domain.events.custom import PermissionDecided
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, ToolCallId
from holdfast.domain.message import Message, ToolCall
from holdfast.domain.permission import APPROVALS_VALUE, PermissionAction, PermissionDecision
from holdfast.domain.run import WaitsFor
from holdfast.domain.tool import ToolSpec
from holdfast.tools.arguments import check_arguments
from holdfast.tools.builtin.shell import arguments_for_rules, shell_folder
from holdfast.tools.content import as_text
from holdfast.tools.permissions.policy import DEFAULT_APPROVAL_TOOLS, PermissionPolicy
from holdfast.tools.permissions.rule_checks import suggest_grants
from holdfast.tools.permissions.rules import BASH_TOOL
from holdfast.tools.tool import InterruptResolved

T = TypeVar("T")

_log: Final = logging.getLogger("holdfast.agent")

PREEMPTED_RESULT: Final = "refused: nobody approved it, because the person said something else instead"
EDITED_ARGUMENTS_NOTE: Final = "a person changed the arguments of this call to {}, and this came of it:"
EXPIRED_RESULT: Final = "refused: nobody approved it in time"
TOOL_CHANGED_REASON: Final = "the tool is not what it was when it was trusted"
FOLDER_CHANGED_RESULT: Final = (
    "refused: this was decided for a shell in `{}`, but a call before it went to `{}`, where the rules say otherwise: "
    "call it again"
)
RULES_CHANGED_RESULT: Final = "refused: the rules have changed, and a person must approve it now: call it again"


class ApprovedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of a message, as they may be run, and why some may not."""

    calls: Sequence[ToolCall]
    denied: Mapping[ToolCallId, str] = {}
    edit_notes: Mapping[ToolCallId, str] = {}
    """What the model is told of calls whose arguments a person changed."""
    shell_folders: Mapping[ToolCallId, str] = {}
    """Where the shell was for which commands were decided on."""

    def denial(self, ctx: RunContext, call: ToolCall) -> str | None:
        """Return what the model is told of a call that may not run, as things are now."""
        if call.id in self.denied:
            return self.denied[call.id]
        meant, now = self.shell_folders.get(call.id), shell_folder(ctx.values)
        if meant is None or meant == now:
            return None
        decision = ctx.permission_chain.decide(call.name, arguments_for_rules(call.name, call.arguments, ctx.values))
        return None if decision.action is PermissionAction.ALLOW else FOLDER_CHANGED_RESULT.format(meant, now)


UNRESTRICTED: Final = ApprovedCalls(calls=())
"""Nothing is decided about any call."""


def needs_decision(ctx: RunContext, calls: Sequence[ToolCall]) -> bool:
    """Say whether there is anything to decide about calls; mostly there is not."""
    return (
        ctx.values.get(APPROVALS_VALUE) is not None
        or is_tainted(ctx)
        or any(call.name in ctx.guarded_tools for call in calls)
    )


class ApprovalGate:
    """Decides about the calls of one assistant message."""

    def __init__(self, ctx: RunContext, message: Message) -> None:
        self._ctx = ctx
        self._message = message
        self._decisions: dict[ToolCallId, ApprovalDecision] = {}

    async def decide(self, calls: Sequence[ToolCall]) -> ApprovedCalls | None:
        """Return how the calls may be run, or null if the run waits for people to decide about some of them."""
        self._decisions = dict(load_decisions(self._ctx.values, self._ctx.run.id))
        asked = await self._decide_new_calls([call for call in calls if call.id not in self._decisions])
        if asked and not await self._wait_for_responses(asked):
            return None
        refused = {call: ruling.why for call, ruling in self._decisions.items() if ruling.why is not None}
        edited = {
            call: EDITED_ARGUMENTS_NOTE.format(as_text(ruling.arguments))
            for call, ruling in self._decisions.items()
            if ruling.arguments is not None
        }
        folders = {call: ruling.folder for call, ruling in self._decisions.items() if ruling.folder is not None}
        approved = [self._with_approved_arguments(call) for call in calls]
        return ApprovedCalls(calls=approved, denied=refused, edit_notes=edited, shell_folders=folders)

    async def _decide_new_calls(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Decide about calls that have not begun, and return those that somebody is asked about."""
        ledger = self._ctx.ledger
        begun = any(ledger.step_for_call(call.id) is not None for call in self._message.tool_calls)
        asked = []
        for call in calls:
            if ledger.step_for_call(call.id) is not None or await self._apply_response(call):
                continue
            if self._interrupt_id(call) in self._ctx.interrupts:
                asked.append(call)
                continue
            decision = self._decide_by_rules(call)
            if decision.action is PermissionAction.ASK and begun:
                decision = PermissionDecision(
                    action=PermissionAction.DENY, rule=decision.rule, reason=RULES_CHANGED_RESULT
                )
            if decision.action is PermissionAction.ASK:
                asked.append(call)
                self._open_interrupt(call, decision)
            self._record_decision(call, decision)
        return asked

    def _decide_by_rules(self, call: ToolCall) -> PermissionDecision:
        """Return what the rules say. What would fail anyway is left to do so: nobody is asked about it."""
        tool = self._tool_spec(call.name)
        if tool is None or call.id in self._message.metadata.get("unreadable", {}):
            return PermissionDecision(action=PermissionAction.ALLOW)
        decision = self._ctx.permission_chain.decide(call.name, self._rule_arguments(call), default=self._default(call))
        if tool.changed is not None and decision.action is not PermissionAction.DENY:
            return PermissionDecision(action=PermissionAction.ASK, rule=decision.rule, reason=TOOL_CHANGED_REASON)
        decision = ask_if_tainted(self._ctx, tool, decision, sequence=self._message.sequence)
        if decision.action is PermissionAction.ASK and _argument_problem(tool, call.arguments) is not None:
            return PermissionDecision(action=PermissionAction.ALLOW)
        return decision

    def _record_decision(self, call: ToolCall, decision: PermissionDecision) -> None:
        """Say what was decided, unless nothing is said about such calls, and keep it."""
        if decision.action is PermissionAction.ALLOW and decision.rule is None:
            return
        self._emit_decision(call, decision)
        if decision.action is not PermissionAction.ASK:
            self._decisions[call.id] = ApprovalDecision(why=_denial_text(decision), folder=self._shell_folder(call))

    def _open_interrupt(self, call: ToolCall, decision: PermissionDecision) -> None:
        spec = self._tool_spec(call.name)
        assert spec is not None
        asked = approval_interrupt(
            self._ctx.run.id,
            call,
            spec,
            decision,
            asking_agents=[name for name, _ in self._asking_agents(call)],
            offered_rules=self._offered_rules(call),
            folder=self._shell_folder(call),
        )
        open_interrupt(self._ctx, asked)

    async def _wait_for_responses(self, asked: list[ToolCall]) -> bool:
        """Wait for people, and return whether all is decided by now."""
        while asked:
            self._save_decisions()
            try:
                await suspend(self._ctx, WaitsFor.PERSON, waits_on=())
            except InboxNotEmpty:
                await self._ctx.read_inbox()
                asked = await self._apply_responses(asked)
                if asked:
                    hold_messages(self._ctx)
            else:
                return False
        return True

    async def _apply_responses(self, asked: Sequence[ToolCall]) -> list[ToolCall]:
        """Take in what came, and return the calls that nothing came for."""
        open_ = [call for call in asked if not await self._apply_response(call)]
        if not self._ctx.inbox.has_message:
            return open_
        for call in open_:
            cancel_interrupt(self._ctx, self._interrupt_id(call))
            self._store_decision(call, ApprovalDecision(why=PREEMPTED_RESULT))
        return []

    async def _apply_response(self, call: ToolCall) -> bool:
        """Decide about a call as a person answered, if one did."""
        answered = take_resume_cause(self._ctx, approval_key(self._ctx.run.id, call, self._tool_spec(call.name)))
        if not isinstance(answered, InterruptResolved):
            return False
        self._store_decision(call, await self._decide_by_response(call, answered), by=answered.by)
        return True

    async def _decide_by_response(self, call: ToolCall, answered: InterruptResolved) -> ApprovalDecision:
        """Return what a person decided. The rules are asked once more: what they deny now, nobody can approve."""
        response = _parse_response(answered)
        if response is None:
            return ApprovalDecision(why=EXPIRED_RESULT)
        if response.decision == "deny":
            return ApprovalDecision(why=f"refused: a person said no{f': {response.reason}' if response.reason else ''}")
        edited = response.arguments
        spec = self._tool_spec(call.name)
        unfit = None if edited is None or spec is None else _argument_problem(spec, edited)
        if unfit is not None:
            return ApprovalDecision(why=f"refused: a person changed the arguments, but {unfit}")
        final = call if edited is None else replace(call, arguments=edited)
        decision = self._ctx.permission_chain.decide(
            final.name, self._rule_arguments(final), default=self._default(final)
        )
        if decision.action is PermissionAction.DENY:
            return ApprovalDecision(why=_denial_text(decision))
        if spec is not None and spec.changed is not None:
            await self._ctx.remote_tools.trust(self._ctx.lease, spec.name, spec.changed.digest)
        granted = await self._grant(final, response) if response.decision == "always" else None
        return ApprovalDecision(arguments=edited, granted=granted, folder=self._shell_folder(call))

    async def _grant(self, call: ToolCall, response: ApprovalResponse) -> list[str] | None:
        """Write the rules that a person chose, for every agent whose rules asked; return them, if they are written."""
        work, offered = self._ctx, self._offered_rules(call)
        rules = response.rules if response.rules in offered else offered[0] if offered else None
        if rules is None:
            return None
        try:
            for agent, _ in self._asking_agents(call):
                await work.library.grant(work.lease, agent=agent, rules=rules)
        except Conflict as error:
            if isinstance(error, LeaseLost):
                raise
            _log.warning("run `%s`: what a person always allows is not written: %s", work.run.id, error.message)
            return None
        work.update_agent(await work.library.agent(work.lease))
        return rules

    def _store_decision(self, call: ToolCall, decision: ApprovalDecision, *, by: str | None = None) -> None:
        """Keep what was decided about a call, and say so."""
        self._decisions[call.id] = decision
        self._save_decisions()
        verdict = PermissionAction.ALLOW if decision.why is None else PermissionAction.DENY
        self._emit_decision(call, PermissionDecision(action=verdict, reason=decision.why), approval=decision, by=by)

    def _save_decisions(self) -> None:
        kept = ApprovalState(run_id=self._ctx.run.id, calls=self._decisions)
        self._ctx.set_values({APPROVALS_VALUE: msgspec.to_builtins(kept)})

    def _emit_decision(
        self,
        call: ToolCall,
        decision: PermissionDecision,
        *,
        approval: ApprovalDecision | None = None,
        by: str | None = None,
    ) -> None:
        ruled = approval or ApprovalDecision()
        self._ctx.writer.emit_custom(
            PermissionDecided(
                tool_call_id=call.id,
                tool=call.name,
                decision=decision.action,
                rule=_or_unset(decision.rule),
                reason=_or_unset(decision.reason),
                agent=_or_unset(decision.agent),
                by=_or_unset(by),
                arguments=_or_unset(ruled.arguments),
                granted=_or_unset(ruled.granted),
            )
        )

    def _offered_rules(self, call: ToolCall) -> list[list[str]]:
        """Return the rules that would allow a call from now on, whoever's rules ask."""
        asking = self._asking_agents(call)
        return suggest_grants(asking[0][1], call.name, self._rule_arguments(call)) if asking else []

    def _asking_agents(self, call: ToolCall) -> list[tuple[str, PermissionPolicy]]:
        """Return the agents whose rules ask about a call, with these."""
        decisions = self._ctx.permission_chain.decisions(
            call.name, self._rule_arguments(call), default=self._default(call)
        )
        return [
            link
            for link, decision in zip(self._ctx.permission_chain.links, decisions, strict=True)
            if decision.action is PermissionAction.ASK
        ]

    def _rule_arguments(self, call: ToolCall) -> dict[str, Json]:
        return arguments_for_rules(call.name, call.arguments, self._ctx.values)

    def _shell_folder(self, call: ToolCall) -> str | None:
        return shell_folder(self._ctx.values) if call.name == BASH_TOOL else None

    def _with_approved_arguments(self, call: ToolCall) -> ToolCall:
        ruling = self._decisions.get(call.id)
        return call if ruling is None or ruling.arguments is None else replace(call, arguments=ruling.arguments)

    def _interrupt_id(self, call: ToolCall) -> InterruptId:
        return InterruptId(derived_id("int", key=approval_key(self._ctx.run.id, call, self._tool_spec(call.name))))

    def _default(self, call: ToolCall) -> PermissionAction:
        asked = call.name in DEFAULT_APPROVAL_TOOLS or call.name in self._ctx.toolbox.remote_names
        return PermissionAction.ASK if asked else PermissionAction.ALLOW

    def _tool_spec(self, name: str) -> ToolSpec | None:
        try:
            return self._ctx.toolbox.find(name).spec
        except NotFound:
            return None


def emit_denial(ctx: RunContext, call: ToolCall, reason: str) -> None:
    """Say that a call is refused after all, now that it was about to begin."""
    ctx.writer.emit_custom(
        PermissionDecided(tool_call_id=call.id, tool=call.name, decision=PermissionAction.DENY, reason=reason)
    )


def clear_decisions(ctx: RunContext) -> None:
    """Forget what was decided about calls, now that they have settled."""
    if ctx.values.get(APPROVALS_VALUE) is not None:
        ctx.set_values({APPROVALS_VALUE: None})


def _parse_response(answered: InterruptResolved) -> ApprovalResponse | None:
    """Return what a person said, or null if that is nothing that could be a yes."""
    try:
        return None if answered.expired else msgspec.convert(answered.response, ApprovalResponse)
    except msgspec.ValidationError:
        return None


def _argument_problem(spec: ToolSpec, arguments: dict[str, Json]) -> str | None:
    try:
        check_arguments(spec, arguments)
    except Invalid as error:
        return error.message
    return None


def _denial_text(decision: PermissionDecision) -> str | None:
    """Return what the model is told of a call that is refused."""
    if decision.action is not PermissionAction.DENY:
        return None
    if decision.reason is not None:
        return decision.reason
    whose = f" of agent `{decision.agent}`" if decision.agent is not None else ""
    return f"refused: the rule `{decision.rule}`{whose} denies this call"


def _or_unset(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value
