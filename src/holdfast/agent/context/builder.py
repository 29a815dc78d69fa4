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
from holdfast.agent.context.reminders import build_reminders
from holdfast.agent.context.system_prompt import PromptComposer, PromptInput
from holdfast.agent.context.tokens import MessageSizer, ToolMeasurer
from holdfast.agent.run_context import RunContext
from holdfast.domain.content import DataSource, Json, Part, TextPart, stored_file, stored_file_ids
from holdfast.domain.context import decode_compaction
from holdfast.domain.errors import ModelRefused, ModelUnavailable, NotFound
from holdfast.domain.events.custom import ContextCompacted
from holdfast.domain.ids import FileId
from holdfast.domain.instant import Instant
from holdfast.domain.message import Message, NewMessage
from holdfast.domain.plan import Plan, Todo
from holdfast.ports.model import ModelFinished, ModelRequest, ModelSettings, TextDelta
from holdfast.ports.runtime import StoredFile

COMPACTION_VALUE: Final = "compaction"
MAX_HISTORY_MESSAGES: Final = 500
"""Earlier messages that are read for a summary, in addition to the window."""


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
        context_input = self._collect_input()
        context = assemble(context_input, sizes=self._sizes)
        if (context.needs_compaction or compact) and await self._compact(context_input, covered=context.covered):
            context_input = self._collect_input()
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
            position=self._ctx.conversation.position,
        )

    def _collect_input(self) -> ContextInput:
        ctx, conversation = self._ctx, self._ctx.conversation
        plan = _convert_value(ctx.values.get("plan"), Plan) or Plan()
        turn_started = ctx.run.created_at if conversation.goal is None else conversation.goal.created_at
        prompt = PromptInput(
            agent=ctx.agent,
            run=ctx.run,
            workspace=self._workspace,
            # Only the hour: providers cache a prompt that rarely changes.
            now=Instant(f"{turn_started[:13]}:00Z"),
            locale=ctx.thread.locale or ctx.agent.locale,
            plan=plan,
            todo=_convert_value(ctx.values.get("todo"), Todo) or Todo(),
        )
        return ContextInput(
            messages=conversation.messages,
            whole=conversation.whole,
            goal=conversation.goal,
            segments=self._prompt_composer.compose(prompt),
            window=ctx.model.context_window,
            tools=self._tool_measurer.measure(ctx.toolset.visible(values=ctx.values, run_id=ctx.run.id)),
            compaction=decode_compaction(ctx.values.get(COMPACTION_VALUE)),
            reminders=build_reminders(
                conversation.messages,
                run_id=ctx.run.id,
                iterations=ctx.iterations,
                goal=conversation.goal,
                plan=plan,
                drift_every=ctx.agent.anti_drift_every,
            ),
        )

    async def _read_history(self, context_input: ContextInput) -> ContextInput:
        """Add the messages before the window, which no summary covers, so that the new summary covers them."""
        conversation = self._ctx.conversation
        first = conversation.messages[0].sequence if conversation.messages else None
        if first is None or conversation.whole:
            return context_input
        earlier = await self._ctx.journal.history(self._ctx.lease, before=first, limit=MAX_HISTORY_MESSAGES)
        conversation.prepend(earlier, whole=len(earlier) < MAX_HISTORY_MESSAGES)
        return replace(context_input, messages=conversation.messages, whole=conversation.whole)

    async def _compact(self, context_input: ContextInput, *, covered: bool) -> bool:
        """Compact the conversation; return whether it became shorter."""
        ctx = self._ctx
        if not covered:
            context_input = await self._read_history(context_input)
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
