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
    refused: Mapping[ToolCallId, str] = {}
    edited: Mapping[ToolCallId, str] = {}
    """What the model is told of calls whose arguments a person changed."""
    folders: Mapping[ToolCallId, str] = {}
    """Where the shell was for which commands were decided on."""

    def refusal(self, work: RunContext, call: ToolCall) -> str | None:
        """Return what the model is told of a call that may not run, as things are now."""
        if call.id in self.refused:
            return self.refused[call.id]
        meant, now = self.folders.get(call.id), shell_folder(work.values)
        if meant is None or meant == now:
            return None
        decision = work.chain.decide(call.name, arguments_for_rules(call.name, call.arguments, work.values))
        return None if decision.verdict is PermissionAction.ALLOW else FOLDER_CHANGED_RESULT.format(meant, now)


UNRESTRICTED: Final = ApprovedCalls(calls=())
"""Nothing is decided about any call."""


def needs_decision(work: RunContext, calls: Sequence[ToolCall]) -> bool:
    """Say whether there is anything to decide about calls; mostly there is not."""
    return (
        work.values.get(APPROVALS_VALUE) is not None
        or is_tainted(work)
        or any(call.name in work.guarded for call in calls)
    )


class ApprovalGate:
    """Decides about the calls of one assistant message."""

    def __init__(self, work: RunContext, message: Message) -> None:
        self._work = work
        self._message = message
        self._rulings: dict[ToolCallId, ApprovalDecision] = {}

    async def permit(self, calls: Sequence[ToolCall]) -> ApprovedCalls | None:
        """Return how the calls may be run, or null if the run waits for people to decide about some of them."""
        self._rulings = dict(load_decisions(self._work.values, self._work.run.id))
        asked = await self._decide([call for call in calls if call.id not in self._rulings])
        if asked and not await self._wait(asked):
            return None
        refused = {call: ruling.why for call, ruling in self._rulings.items() if ruling.why is not None}
        edited = {
            call: EDITED_ARGUMENTS_NOTE.format(as_text(ruling.arguments))
            for call, ruling in self._rulings.items()
            if ruling.arguments is not None
        }
        folders = {call: ruling.folder for call, ruling in self._rulings.items() if ruling.folder is not None}
        approved = [self._as_approved(call) for call in calls]
        return ApprovedCalls(calls=approved, refused=refused, edited=edited, folders=folders)

    async def _decide(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Decide about calls that have not begun, and return those that somebody is asked about."""
        ledger = self._work.ledger
        begun = any(ledger.of_call(call.id) is not None for call in self._message.tool_calls)
        asked = []
        for call in calls:
            if ledger.of_call(call.id) is not None or await self._take_answer(call):
                continue
            if self._question_id(call) in self._work.interrupts:
                asked.append(call)
                continue
            decision = self._decision(call)
            if decision.verdict is PermissionAction.ASK and begun:
                decision = PermissionDecision(
                    verdict=PermissionAction.DENY, rule=decision.rule, reason=RULES_CHANGED_RESULT
                )
            if decision.verdict is PermissionAction.ASK:
                asked.append(call)
                self._open(call, decision)
            self._note(call, decision)
        return asked

    def _decision(self, call: ToolCall) -> PermissionDecision:
        """Return what the rules say. What would fail anyway is left to do so: nobody is asked about it."""
        tool = self._spec(call.name)
        if tool is None or call.id in self._message.metadata.get("unreadable", {}):
            return PermissionDecision(verdict=PermissionAction.ALLOW)
        decision = self._work.chain.decide(call.name, self._ruled(call), default=self._default(call))
        if tool.changed is not None and decision.verdict is not PermissionAction.DENY:
            return PermissionDecision(verdict=PermissionAction.ASK, rule=decision.rule, reason=TOOL_CHANGED_REASON)
        decision = ask_if_tainted(self._work, tool, decision, sequence=self._message.sequence)
        if decision.verdict is PermissionAction.ASK and _argument_problem(tool, call.arguments) is not None:
            return PermissionDecision(verdict=PermissionAction.ALLOW)
        return decision

    def _note(self, call: ToolCall, decision: PermissionDecision) -> None:
        """Say what was decided, unless nothing is said about such calls, and keep it."""
        if decision.verdict is PermissionAction.ALLOW and decision.rule is None:
            return
        self._tell(call, decision)
        if decision.verdict is not PermissionAction.ASK:
            self._rulings[call.id] = ApprovalDecision(why=_denial_text(decision), folder=self._folder(call))

    def _open(self, call: ToolCall, decision: PermissionDecision) -> None:
        spec = self._spec(call.name)
        assert spec is not None
        asked = approval_interrupt(
            self._work.run.id,
            call,
            spec,
            decision,
            asking=[name for name, _ in self._asking(call)],
            offers=self._offers(call),
            folder=self._folder(call),
        )
        open_interrupt(self._work, asked)

    async def _wait(self, asked: list[ToolCall]) -> bool:
        """Wait for people, and return whether all is decided by now."""
        while asked:
            self._keep()
            try:
                await suspend(self._work, WaitsFor.PERSON, waits_on=())
            except InboxNotEmpty:
                await self._work.read_mail()
                asked = await self._still_asked(asked)
                if asked:
                    hold_messages(self._work)
            else:
                return False
        return True

    async def _still_asked(self, asked: Sequence[ToolCall]) -> list[ToolCall]:
        """Take in what came, and return the calls that nothing came for."""
        open_ = [call for call in asked if not await self._take_answer(call)]
        if not self._work.mail.disturbs:
            return open_
        for call in open_:
            cancel_interrupt(self._work, self._question_id(call))
            self._rule(call, ApprovalDecision(why=PREEMPTED_RESULT))
        return []

    async def _take_answer(self, call: ToolCall) -> bool:
        """Decide about a call as a person answered, if one did."""
        answered = take_resume_cause(self._work, approval_key(self._work.run.id, call, self._spec(call.name)))
        if not isinstance(answered, InterruptResolved):
            return False
        self._rule(call, await self._answer(call, answered), by=answered.by)
        return True

    async def _answer(self, call: ToolCall, answered: InterruptResolved) -> ApprovalDecision:
        """Return what a person decided. The rules are asked once more: what they deny now, nobody can approve."""
        response = _parse_response(answered)
        if response is None:
            return ApprovalDecision(why=EXPIRED_RESULT)
        if response.decision == "deny":
            return ApprovalDecision(why=f"refused: a person said no{f': {response.reason}' if response.reason else ''}")
        edited = response.arguments
        spec = self._spec(call.name)
        unfit = None if edited is None or spec is None else _argument_problem(spec, edited)
        if unfit is not None:
            return ApprovalDecision(why=f"refused: a person changed the arguments, but {unfit}")
        final = call if edited is None else replace(call, arguments=edited)
        decision = self._work.chain.decide(final.name, self._ruled(final), default=self._default(final))
        if decision.verdict is PermissionAction.DENY:
            return ApprovalDecision(why=_denial_text(decision))
        if spec is not None and spec.changed is not None:
            await self._work.remote.trust(self._work.lease, spec.name, spec.changed.digest)
        granted = await self._grant(final, response) if response.decision == "always" else None
        return ApprovalDecision(arguments=edited, granted=granted, folder=self._folder(call))

    async def _grant(self, call: ToolCall, response: ApprovalResponse) -> list[str] | None:
        """Write the rules that a person chose, for every agent whose rules asked; return them, if they are written."""
        work, offered = self._work, self._offers(call)
        rules = response.rules if response.rules in offered else offered[0] if offered else None
        if rules is None:
            return None
        try:
            for agent, _ in self._asking(call):
                await work.library.grant(work.lease, agent=agent, rules=rules)
        except Conflict as error:
            if isinstance(error, LeaseLost):
                raise
            _log.warning("run `%s`: what a person always allows is not written: %s", work.run.id, error.message)
            return None
        work.change_agent(await work.library.agent(work.lease))
        return rules

    def _rule(self, call: ToolCall, ruling: ApprovalDecision, *, by: str | None = None) -> None:
        """Keep what was decided about a call, and say so."""
        self._rulings[call.id] = ruling
        self._keep()
        verdict = PermissionAction.ALLOW if ruling.why is None else PermissionAction.DENY
        self._tell(call, PermissionDecision(verdict=verdict, reason=ruling.why), ruling=ruling, by=by)

    def _keep(self) -> None:
        kept = ApprovalState(run_id=self._work.run.id, calls=self._rulings)
        self._work.set_values({APPROVALS_VALUE: msgspec.to_builtins(kept)})

    def _tell(
        self,
        call: ToolCall,
        decision: PermissionDecision,
        *,
        ruling: ApprovalDecision | None = None,
        by: str | None = None,
    ) -> None:
        ruled = ruling or ApprovalDecision()
        self._work.log.tell(
            PermissionDecided(
                tool_call_id=call.id,
                tool=call.name,
                decision=decision.verdict,
                rule=_or_unset(decision.rule),
                reason=_or_unset(decision.reason),
                agent=_or_unset(decision.agent),
                by=_or_unset(by),
                arguments=_or_unset(ruled.arguments),
                granted=_or_unset(ruled.granted),
            )
        )

    def _offers(self, call: ToolCall) -> list[list[str]]:
        """Return the rules that would allow a call from now on, whoever's rules ask."""
        asking = self._asking(call)
        return suggest_grants(asking[0][1], call.name, self._ruled(call)) if asking else []

    def _asking(self, call: ToolCall) -> list[tuple[str, PermissionPolicy]]:
        """Return the agents whose rules ask about a call, with these."""
        decisions = self._work.chain.decisions(call.name, self._ruled(call), default=self._default(call))
        return [
            link
            for link, decision in zip(self._work.chain.links, decisions, strict=True)
            if decision.verdict is PermissionAction.ASK
        ]

    def _ruled(self, call: ToolCall) -> dict[str, Json]:
        return arguments_for_rules(call.name, call.arguments, self._work.values)

    def _folder(self, call: ToolCall) -> str | None:
        return shell_folder(self._work.values) if call.name == BASH_TOOL else None

    def _as_approved(self, call: ToolCall) -> ToolCall:
        ruling = self._rulings.get(call.id)
        return call if ruling is None or ruling.arguments is None else replace(call, arguments=ruling.arguments)

    def _question_id(self, call: ToolCall) -> InterruptId:
        return InterruptId(derived_id("int", key=approval_key(self._work.run.id, call, self._spec(call.name))))

    def _default(self, call: ToolCall) -> PermissionAction:
        asked = call.name in DEFAULT_APPROVAL_TOOLS or call.name in self._work.toolbox.foreign
        return PermissionAction.ASK if asked else PermissionAction.ALLOW

    def _spec(self, name: str) -> ToolSpec | None:
        try:
            return self._work.toolbox.find(name).spec
        except NotFound:
            return None


def emit_denial(work: RunContext, call: ToolCall, reason: str) -> None:
    """Say that a call is refused after all, now that it was about to begin."""
    work.log.tell(
        PermissionDecided(tool_call_id=call.id, tool=call.name, decision=PermissionAction.DENY, reason=reason)
    )


def clear_decisions(work: RunContext) -> None:
    """Forget what was decided about calls, now that they have settled."""
    if work.values.get(APPROVALS_VALUE) is not None:
        work.set_values({APPROVALS_VALUE: None})


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
    if decision.verdict is not PermissionAction.DENY:
        return None
    if decision.reason is not None:
        return decision.reason
    whose = f" of agent `{decision.agent}`" if decision.agent is not None else ""
    return f"refused: the rule `{decision.rule}`{whose} denies this call"


def _or_unset(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value
