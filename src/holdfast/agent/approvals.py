"""`ApprovalGate` decides every tool call of a message before any of them runs.

    allowed by a rule or by default ──► runs
    denied                          ──► a result for the model; the call never starts
    needs approval                  ──► all interrupts of the message open in one commit, and the run waits

Grants of the space are read only when a call would need approval. An answer "always" adds one in the transaction that
settles the interrupt; the worker writes none.

Decisions are stored in a value of the run, from the commit that opens the interrupts until the calls have settled: a
worker that takes over after a crash opens no interrupt twice, and runs no denied call.
"""

from collections.abc import Callable, Mapping, Sequence
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
from holdfast.domain.errors import InboxNotEmpty, Invalid, NotFound
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
from holdfast.tools.permissions.policy import DEFAULT_APPROVAL_TOOLS, PermissionChain, PermissionPolicy
from holdfast.tools.permissions.rule_checks import suggest_grants
from holdfast.tools.permissions.rules import BASH_TOOL
from holdfast.tools.thread_pool import run_in_thread
from holdfast.tools.tool import InterruptResolved

T = TypeVar("T")

PREEMPTED_RESULT: Final = "refused: nobody approved it, because the person said something else instead"
EDITED_ARGUMENTS_NOTE: Final = "a person changed the arguments of this call to {}. Its result:"
EXPIRED_RESULT: Final = "refused: nobody approved it in time"
TOOL_CHANGED_REASON: Final = "the tool has changed since it was trusted"
FOLDER_CHANGED_RESULT: Final = (
    "refused: this was decided for a shell in `{}`, but an earlier call changed to `{}`, where other rules apply: "
    "call it again"
)
EDIT_POSSIBLY_DENIED_RESULT: Final = (
    "refused: a person changed the arguments, but the rule `{}` may deny the call ({}): write it in a plainer way"
)
RULES_CHANGED_RESULT: Final = "refused: the rules have changed, and a person must approve it now: call it again"


class ApprovedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The decided calls of a message, with approved arguments, and why some of them are denied."""

    calls: Sequence[ToolCall]
    denied: Mapping[ToolCallId, str] = {}
    edit_notes: Mapping[ToolCallId, str] = {}
    """Notes to the model about calls whose arguments a person edited."""
    shell_folders: Mapping[ToolCallId, str] = {}
    """The shell folders for which commands were decided."""
    permission_chain: PermissionChain | None = None
    """The permissions that they were decided with."""

    async def denial(self, ctx: RunContext, call: ToolCall) -> str | None:
        """Return the result of a call that may not run now, or null if it may."""
        if call.id in self.denied:
            return self.denied[call.id]
        decided_folder, folder = self.shell_folders.get(call.id), shell_folder(ctx.values)
        if decided_folder is None or decided_folder == folder:
            return None
        chain = self.permission_chain or ctx.permission_chain
        arguments = arguments_for_rules(call.name, call.arguments, ctx.values)
        decision = await run_in_thread(lambda _: chain.decide(call.name, arguments))
        return (
            None if decision.action is PermissionAction.ALLOW else FOLDER_CHANGED_RESULT.format(decided_folder, folder)
        )


UNRESTRICTED: Final = ApprovedCalls(calls=())
"""No call needs a decision."""


def needs_decision(ctx: RunContext, calls: Sequence[ToolCall]) -> bool:
    """Return whether any of the calls needs a decision; usually none does."""
    return (
        ctx.values.get(APPROVALS_VALUE) is not None
        or is_tainted(ctx)
        or any(call.name in ctx.guarded_tools for call in calls)
    )


class ApprovalGate:
    """Decides the calls of one assistant message."""

    def __init__(self, ctx: RunContext, message: Message) -> None:
        self._ctx = ctx
        self._message = message
        self._chain = ctx.permission_chain
        self._grants_loaded = False
        self._decisions: dict[ToolCallId, ApprovalDecision] = {}

    async def decide(self, calls: Sequence[ToolCall]) -> ApprovedCalls | None:
        """Return the decided calls, or null if the run was suspended until people respond."""
        self._decisions = dict(load_decisions(self._ctx.values, self._ctx.run.id))
        undecided = await self._decide_new_calls([call for call in calls if call.id not in self._decisions])
        if undecided and not await self._wait_for_responses(undecided):
            return None
        edits = {id: decision.arguments for id, decision in self._decisions.items() if decision.arguments is not None}
        return ApprovedCalls(
            calls=[replace(call, arguments=edits[call.id]) if call.id in edits else call for call in calls],
            denied={id: decision.why for id, decision in self._decisions.items() if decision.why is not None},
            edit_notes={id: EDITED_ARGUMENTS_NOTE.format(as_text(arguments)) for id, arguments in edits.items()},
            shell_folders={id: found.folder for id, found in self._decisions.items() if found.folder is not None},
            permission_chain=self._chain,
        )

    async def _decide_new_calls(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Decide calls that have not started, and return those that a person must decide."""
        ledger = self._ctx.ledger
        started = any(ledger.step_for_call(call.id) is not None for call in self._message.tool_calls)
        undecided = []
        for call in calls:
            if ledger.step_for_call(call.id) is not None or await self._apply_response(call):
                continue
            if self._interrupt_id(call) in self._ctx.interrupts:
                undecided.append(call)
                continue
            decision = await self._decide_by_rules(call)
            if decision.action is PermissionAction.ASK and await self._load_grants():
                decision = await self._decide_by_rules(call)
            if decision.action is PermissionAction.ASK and started:
                decision = PermissionDecision(
                    action=PermissionAction.DENY, rule=decision.rule, reason=RULES_CHANGED_RESULT
                )
            if decision.action is PermissionAction.ASK:
                undecided.append(call)
                await self._open_interrupt(call, decision)
            if decision.action is PermissionAction.ALLOW and decision.rule is None:
                continue
            self._emit_decision(call, decision)
            if decision.action is not PermissionAction.ASK:
                self._decisions[call.id] = ApprovalDecision(why=_denial_text(decision), folder=self._shell_folder(call))
        return undecided

    async def _load_grants(self) -> bool:
        """Add the grants of the space to the rules; return whether that changed them."""
        if self._grants_loaded:
            return False
        self._grants_loaded = True
        granted = await self._ctx.library.grants(self._ctx.lease)
        self._chain = self._chain.with_grants(granted)
        return bool(granted)

    async def _decide_by_rules(self, call: ToolCall) -> PermissionDecision:
        """Return the decision of the rules. A call that would fail anyway needs no approval."""
        tool = self._tool_spec(call.name)
        if tool is None or call.id in self._message.metadata.get("unreadable", {}):
            return PermissionDecision(action=PermissionAction.ALLOW)
        decision = await self._apply_rules(call, PermissionChain.decide)
        if tool.changed is not None and decision.action is not PermissionAction.DENY:
            return PermissionDecision(action=PermissionAction.ASK, rule=decision.rule, reason=TOOL_CHANGED_REASON)
        decision = ask_if_tainted(self._ctx, tool, decision, sequence=self._message.sequence)
        if decision.action is PermissionAction.ASK and await _argument_problem(tool, call.arguments) is not None:
            return PermissionDecision(action=PermissionAction.ALLOW)
        return decision

    async def _open_interrupt(self, call: ToolCall, decision: PermissionDecision) -> None:
        spec = self._tool_spec(call.name)
        assert spec is not None
        asking = await self._asking_agents(call)
        interrupt = approval_interrupt(
            self._ctx.run.id,
            call,
            spec,
            decision,
            asking_agents=[name for name, _ in asking],
            offered_rules=await self._offered_rules(call, asking),
            folder=self._shell_folder(call),
        )
        open_interrupt(self._ctx, interrupt)

    async def _wait_for_responses(self, undecided: list[ToolCall]) -> bool:
        """Suspend the run; return true instead if the inbox already decides every call."""
        ctx = self._ctx
        while undecided:
            self._save_decisions()
            try:
                await suspend(ctx, WaitsFor.PERSON, waits_on=())
                return False
            except InboxNotEmpty:
                await ctx.read_inbox()
            undecided = [call for call in undecided if not await self._apply_response(call)]
            if ctx.inbox.has_message:
                for call in undecided:
                    cancel_interrupt(ctx, self._interrupt_id(call))
                    self._store_decision(call, ApprovalDecision(why=PREEMPTED_RESULT))
                return True
            if undecided:
                hold_messages(ctx)
        return True

    async def _apply_response(self, call: ToolCall) -> bool:
        """Decide a call by the response of a person; return whether there is one."""
        resolved = take_resume_cause(self._ctx, approval_key(self._ctx.run.id, call, self._tool_spec(call.name)))
        if not isinstance(resolved, InterruptResolved):
            return False
        self._store_decision(call, await self._decide_by_response(call, resolved), principal=resolved.by)
        return True

    async def _decide_by_response(self, call: ToolCall, resolved: InterruptResolved) -> ApprovalDecision:
        """Return the decision of a person. The rules apply again: a call that they deny now cannot be approved."""
        try:
            response = msgspec.convert(resolved.response, ApprovalResponse)
        except msgspec.ValidationError:
            response = None  # an invalid response cannot be an approval
        if response is None or resolved.expired:
            return ApprovalDecision(why=EXPIRED_RESULT)
        if response.decision == "deny":
            return ApprovalDecision(why=f"refused: a person said no{f': {response.reason}' if response.reason else ''}")
        edited, spec = response.arguments, self._tool_spec(call.name)
        problem = None if edited is None or spec is None else await _argument_problem(spec, edited)
        if problem is not None:
            return ApprovalDecision(why=f"refused: a person changed the arguments, but {problem}")
        final = call if edited is None else replace(call, arguments=edited)
        decision = await self._apply_rules(final, PermissionChain.decide)
        granted = list(resolved.granted) or None
        if decision.action is PermissionAction.DENY:
            return ApprovalDecision(why=_denial_text(decision), granted=granted)
        if edited is not None and decision.possibly_denied:
            return ApprovalDecision(why=EDIT_POSSIBLY_DENIED_RESULT.format(decision.rule, decision.reason))
        if spec is not None and spec.changed is not None:
            await self._ctx.remote_tools.trust(self._ctx.lease, spec.name, spec.changed.digest)
        return ApprovalDecision(arguments=edited, granted=granted, folder=self._shell_folder(call))

    def _store_decision(self, call: ToolCall, approval: ApprovalDecision, *, principal: str | None = None) -> None:
        self._decisions[call.id] = approval
        self._save_decisions()
        action = PermissionAction.ALLOW if approval.why is None else PermissionAction.DENY
        decision = PermissionDecision(action=action, reason=approval.why)
        self._emit_decision(call, decision, approval=approval, principal=principal)

    def _save_decisions(self) -> None:
        state = ApprovalState(run_id=self._ctx.run.id, calls=self._decisions)
        self._ctx.set_values({APPROVALS_VALUE: msgspec.to_builtins(state)})

    def _emit_decision(
        self,
        call: ToolCall,
        decision: PermissionDecision,
        *,
        approval: ApprovalDecision | None = None,
        principal: str | None = None,
    ) -> None:
        approval = approval or ApprovalDecision()
        self._ctx.writer.emit_custom(
            PermissionDecided(
                tool_call_id=call.id,
                tool=call.name,
                decision=decision.action,
                rule=_or_unset(decision.rule),
                reason=_or_unset(decision.reason),
                agent=_or_unset(decision.agent),
                by=_or_unset(principal),
                arguments=_or_unset(approval.arguments),
                granted=_or_unset(approval.granted),
            )
        )

    async def _offered_rules(self, call: ToolCall, asking: Sequence[tuple[str, PermissionPolicy]]) -> list[list[str]]:
        """Return the rules that would allow a call from now on."""
        arguments = self._rule_arguments(call)
        return await run_in_thread(lambda _: suggest_grants(asking[0][1], call.name, arguments)) if asking else []

    async def _asking_agents(self, call: ToolCall) -> list[tuple[str, PermissionPolicy]]:
        """Return the agents whose rules require approval of a call, with their policies."""
        decisions = await self._apply_rules(call, PermissionChain.decisions)
        return [
            link
            for link, decision in zip(self._chain.links, decisions, strict=True)
            if decision.action is PermissionAction.ASK
        ]

    async def _apply_rules(self, call: ToolCall, decide: Callable[..., T]) -> T:
        """Return what the rules decide about a call; a command is read in a thread, and by a process of its own."""
        arguments, default = self._rule_arguments(call), self._default(call)
        if call.name != BASH_TOOL:
            return decide(self._chain, call.name, arguments, default=default)
        chain = self._chain
        return await run_in_thread(lambda _: decide(chain, call.name, arguments, default=default))

    def _rule_arguments(self, call: ToolCall) -> dict[str, Json]:
        return arguments_for_rules(call.name, call.arguments, self._ctx.values)

    def _shell_folder(self, call: ToolCall) -> str | None:
        return shell_folder(self._ctx.values) if call.name == BASH_TOOL else None

    def _interrupt_id(self, call: ToolCall) -> InterruptId:
        return InterruptId(derived_id("int", key=approval_key(self._ctx.run.id, call, self._tool_spec(call.name))))

    def _default(self, call: ToolCall) -> PermissionAction:
        needs_approval = call.name in DEFAULT_APPROVAL_TOOLS or call.name in self._ctx.toolset.remote_names
        return PermissionAction.ASK if needs_approval else PermissionAction.ALLOW

    def _tool_spec(self, name: str) -> ToolSpec | None:
        try:
            return self._ctx.toolset.find(name).spec
        except NotFound:
            return None


def emit_denial(ctx: RunContext, call: ToolCall, reason: str) -> None:
    """Emit the decision about a call that was allowed and is denied when it is about to start."""
    ctx.writer.emit_custom(
        PermissionDecided(tool_call_id=call.id, tool=call.name, decision=PermissionAction.DENY, reason=reason)
    )


def clear_decisions(ctx: RunContext) -> None:
    """Delete the stored decisions once their calls have settled."""
    if ctx.values.get(APPROVALS_VALUE) is not None:
        ctx.set_values({APPROVALS_VALUE: None})


async def _argument_problem(spec: ToolSpec, arguments: dict[str, Json]) -> str | None:
    try:
        await check_arguments(spec, arguments)
    except Invalid as error:
        return error.message
    return None


def _denial_text(decision: PermissionDecision) -> str | None:
    """Return the result of a denied call, for the model."""
    if decision.action is not PermissionAction.DENY:
        return None
    if decision.reason is not None:
        return decision.reason
    agent = f" of agent `{decision.agent}`" if decision.agent is not None else ""
    return f"refused: the rule `{decision.rule}`{agent} denies this call"


def _or_unset(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value
