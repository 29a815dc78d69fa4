"""`ContextBuilder` builds the model request of the next call, and compacts the conversation if it is too long."""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.context.assembly import AssembledContext, ContextInput, assemble
from holdfast.agent.context.compaction import SummaryPlan, apply_summary, plan_compaction
from holdfast.agent.context.recalled import refresh_memory
from holdfast.agent.context.reminders import build_reminders, due_reminders_note
from holdfast.agent.context.system_prompt import PromptComposer, PromptInput
from holdfast.agent.context.tokens import MessageSizer, ToolMeasurer
from holdfast.agent.distillation import read_distilled_runs
from holdfast.agent.run_context import RunContext, mark_tainted
from holdfast.agent.skill_contracts import missing_products
from holdfast.agent.structured_output import check_output, output_schema, rejected_answers
from holdfast.domain.content import DataSource, Json, Part, TextPart, stored_file, stored_file_ids
from holdfast.domain.context import NO_MEMORY, decode_compaction
from holdfast.domain.distillation import is_distiller
from holdfast.domain.errors import ModelRefused, ModelUnavailable, NotFound
from holdfast.domain.events.custom import ContextCompacted
from holdfast.domain.ids import FileId
from holdfast.domain.instant import Instant
from holdfast.domain.message import Message, NewMessage
from holdfast.domain.plan import Plan, Todo
from holdfast.domain.untrusted import taint_source_name
from holdfast.ports.model import ModelFinished, ModelRequest, ModelSettings, TextDelta
from holdfast.ports.runtime import StoredFile

COMPACTION_VALUE: Final = "compaction"
MIN_PAGE_MESSAGES: Final = 20
MAX_PAGE_MESSAGES: Final = 1_000
"""Earlier messages that are read at once."""


class ContextBuilder:
    """Builds the model requests of one run."""

    def __init__(
        self, ctx: RunContext, prompt_composer: PromptComposer, tool_measurer: ToolMeasurer, *, workspace: str
    ) -> None:
        self._ctx = ctx
        self._prompt_composer = prompt_composer
        self._tool_measurer = tool_measurer
        self._workspace = workspace
        self._sizes = MessageSizer(ctx.tokens)

    async def build(self, *, compact: bool = False) -> tuple[ContextInput, AssembledContext]:
        """Return the context of the next call; a conversation that is too long is compacted, or any if `compact`."""
        output_problems, due = await self._output_problems(), await self._due_reminders()
        if self._ctx.agent.memory is not None:
            await refresh_memory(self._ctx)
        elif is_distiller(self._ctx.agent.name):
            await read_distilled_runs(self._ctx)
        context_input = self._collect_input(output_problems, due)
        context = assemble(context_input, sizes=self._sizes)
        context_input, context = await self._read_back(context_input, context, max_tokens=context.budget.conversation)
        if (context.needs_compaction or compact) and await self._compact(context_input, context):
            context_input = self._collect_input(output_problems, due)
            context = assemble(context_input, sizes=self._sizes)
        return context_input, context

    async def build_request(self, context_input: ContextInput, context: AssembledContext) -> ModelRequest:
        """Return the model request, with the content of stored files inlined."""
        agent, library, lease = self._ctx.agent, self._ctx.library, self._ctx.lease
        return ModelRequest(
            run_id=self._ctx.run.id,
            system=context.system,
            messages=await inline_files(context.messages, lambda file: library.file(lease, file)),
            tools=context_input.tools.definitions,
            settings=ModelSettings(temperature=agent.temperature, thinking=agent.thinking),
            output_schema=output_schema(self._ctx.run, agent),
            position=self._ctx.conversation.position,
        )

    async def _output_problems(self) -> Sequence[str]:
        """Return what is wrong with the latest final answer, if it did not match the output schema."""
        ctx = self._ctx
        schema = output_schema(ctx.run, ctx.agent)
        rejected = [] if schema is None else rejected_answers(ctx.conversation.messages, ctx.run.id)
        return (await check_output(rejected[0].content, schema)).problems if schema and rejected else ()

    async def _due_reminders(self) -> list[str]:
        """Return the note about triggered reminders; those that a tainted run set taint this one."""
        if not self._ctx.lease.reminders_due and not self._ctx.writer.has_committed:
            return []  # nothing that this run did since it was claimed can have made one due
        due = await self._ctx.library.reminders(self._ctx.lease)
        mark_tainted(self._ctx, [taint_source_name("reminder", each.id) for each in due if each.taint])
        return due_reminders_note(due, tokens=self._ctx.tokens)

    def _collect_input(self, output_problems: Sequence[str], due_reminders: Sequence[str]) -> ContextInput:
        ctx, conversation = self._ctx, self._ctx.conversation
        plan = _convert_value(ctx.values.get("plan"), Plan) or Plan()
        reminded = ctx.agent.memory is not None or is_distiller(ctx.agent.name)
        memory = ctx.recalled if reminded else NO_MEMORY
        turn_started = ctx.run.created_at if conversation.goal is None else conversation.goal.created_at
        prompt = PromptInput(
            agent=ctx.agent,
            run=ctx.run,
            workspace=self._workspace,
            # Only the hour: providers cache a prompt that rarely changes.
            now=Instant(f"{turn_started[:13]}:00Z"),
            locale=ctx.thread.locale or ctx.agent.locale,
            standing=memory.standing,
            requests=memory.requests,
            memories=memory.recalled,
            skill_catalog=ctx.skill_catalog,
            skills=ctx.prompt_skills,
            skills_left_out=ctx.skills_left_out,
            plan=plan,
            todo=_convert_value(ctx.values.get("todo"), Todo) or Todo(),
            output_schema=output_schema(ctx.run, ctx.agent),
        )
        return ContextInput(
            messages=conversation.messages,
            whole=conversation.whole,
            goal=conversation.goal,
            segments=self._prompt_composer.compose(prompt),
            memory=memory.items,
            window=ctx.model.context_window,
            tools=self._tool_measurer.measure(ctx.toolset.visible(values=ctx.values, run_id=ctx.run.id)),
            compaction=decode_compaction(ctx.values.get(COMPACTION_VALUE)),
            reminders=[
                *due_reminders,
                *build_reminders(
                    conversation.messages,
                    run_id=ctx.run.id,
                    iterations=ctx.iterations,
                    goal=conversation.goal,
                    plan=plan,
                    drift_every=ctx.agent.anti_drift_every,
                    unavailable_servers=[each.server for each in ctx.unavailable_servers],
                    folder_notices=[each.message for each in ctx.folder_notices],
                    output_problems=output_problems,
                    missing_products=missing_products(ctx),
                ),
            ],
        )

    async def _read_back(
        self, context_input: ContextInput, context: AssembledContext, *, max_tokens: int
    ) -> tuple[ContextInput, AssembledContext]:
        """Read earlier messages in pages, until nothing is missing or they have more than `max_tokens`."""
        conversation = self._ctx.conversation
        while not context.covered and context.read_tokens <= max_tokens and conversation.messages:
            first = conversation.messages[0].sequence
            if first is None:
                break
            limit = _page_size(len(conversation.messages), context.read_tokens, max_tokens=max_tokens)
            earlier = await self._ctx.journal.history(self._ctx.lease, before=first, limit=limit)
            conversation.prepend(earlier, whole=len(earlier) < limit)
            context_input = replace(context_input, messages=conversation.messages, whole=conversation.whole)
            context = assemble(context_input, sizes=self._sizes)
        return context_input, context

    async def _compact(self, context_input: ContextInput, context: AssembledContext) -> bool:
        """Compact the conversation; return whether it became shorter."""
        ctx = self._ctx
        # As much as one request for a summary can contain beside its response.
        max_tokens = context.budget.usable - context.budget.conversation // 4
        context_input, _ = await self._read_back(context_input, context, max_tokens=max_tokens)
        compaction = plan_compaction(
            context_input,
            plan=_convert_value(ctx.values.get("plan"), Plan) or Plan(),
            run_id=ctx.run.id,
            context_window=ctx.thread.context_window,
            sizes=self._sizes,
        )
        if compaction is None:
            return False
        if isinstance(compaction, SummaryPlan):
            summary = await self._write_summary(compaction.request)
            compaction = apply_summary(compaction, summary, sizes=self._sizes)
        ctx.set_values({COMPACTION_VALUE: msgspec.to_builtins(compaction)})
        if compaction.failed_tries:
            return False
        through = compaction.through
        if through is None:
            through = max(span.end.message_sequence_num for span in compaction.collapsed)
        else:
            ctx.conversation.drop_through(through)
        tokens_before, tokens_after = compaction.tokens_before, compaction.tokens_after
        ctx.writer.emit_custom(
            ContextCompacted(through=through, tokens_before=tokens_before, tokens_after=tokens_after)
        )
        return True

    async def _write_summary(self, request: ModelRequest) -> str:
        """Return a summary by the model, and charge it; an unfinished one is empty, and charged by estimate."""
        ctx = self._ctx
        texts: list[str] = []
        prompt_tokens = self._sizes.count_text(request.system) + sum(map(self._sizes.count_message, request.messages))
        # A missing summary frees nothing and counts as a failed try: after two the run continues without.
        with suppress(ModelRefused, ModelUnavailable, TimeoutError):
            timeout = asyncio.timeout(ctx.config.stream_timings.idle_timeout_for(ctx.model))
            async with timeout, ctx.model.stream(request) as deltas:
                async for delta in deltas:
                    if isinstance(delta, TextDelta):
                        texts.append(delta.text)
                    elif isinstance(delta, ModelFinished):
                        ctx.add_usage(
                            ctx.usage_or_estimate(
                                delta.usage, prompt_tokens=prompt_tokens, response_text=lambda: "".join(texts)
                            )
                        )
                        return "".join(texts)
        if texts:
            ctx.add_usage(ctx.estimate_usage(prompt_tokens, self._sizes.count_text("".join(texts))))
        return ""


def _page_size(count: int, tokens: int, *, max_tokens: int) -> int:
    """Return how many messages to read, if `count` have so many `tokens`: those that fit, at most twice as many."""
    fitting = count * (max_tokens - tokens) // max(tokens, 1) + 1
    return min(max(min(fitting, 2 * count), MIN_PAGE_MESSAGES), MAX_PAGE_MESSAGES)


_Value = TypeVar("_Value", bound=msgspec.Struct)


def _convert_value(value: Json, kind: type[_Value]) -> _Value | None:
    return None if value is None else msgspec.convert(value, kind)


AnyMessage: TypeAlias = Message | NewMessage
FileReader: TypeAlias = Callable[[FileId], Awaitable[StoredFile]]


async def inline_files(messages: Sequence[AnyMessage], read: FileReader) -> Sequence[AnyMessage]:
    """Return messages with the content of stored files in place of their ids; most messages have none."""
    if not any(stored_file_ids(message.content) for message in messages):
        return messages
    inlined: list[AnyMessage] = []
    for message in messages:
        if not isinstance(message.content, str):
            message = replace(message, content=[await _inline_part(part, read) for part in message.content])
        inlined.append(message)
    return inlined


async def _inline_part(part: Part, read: FileReader) -> Part:
    source = stored_file(part)
    if source is None:
        return part
    try:
        file = await read(FileId(source.value))
    except NotFound:
        return TextPart(text=f"(The file `{source.value}` was here; it has been deleted.)")
    mime_type = file.media_type if source.mime_type is UNSET else source.mime_type
    return replace(part, source=DataSource(value=b64encode(file.content).decode(), mime_type=mime_type))
