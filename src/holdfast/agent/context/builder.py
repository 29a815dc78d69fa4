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
from holdfast.agent.context.compaction import CollapsePlan, apply_summary, plan_compaction
from holdfast.agent.context.reminders import build_reminders
from holdfast.agent.context.snapshot import take_snapshot
from holdfast.agent.context.system_prompt import PromptComposer, PromptInput
from holdfast.agent.context.tokens import MessageSizer, ToolMeasurer
from holdfast.agent.run_context import RunContext
from holdfast.domain.content import Content, DataSource, Json, Part, TextPart, stored_file, stored_file_ids
from holdfast.domain.context import Compaction, ContextSnapshot, decode_compaction
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
"""Messages that are read for a summary beside those in hand."""


class ContextBuilder:
    """Assembles the calls of one run."""

    def __init__(
        self, ctx: RunContext, prompt_composer: PromptComposer, tool_measurer: ToolMeasurer, *, workspace: str
    ) -> None:
        self._ctx = ctx
        self._prompt_composer = prompt_composer
        self._tool_measurer = tool_measurer
        self._workspace = workspace
        self._sizes = MessageSizer(ctx.tokens)

    async def build(self, *, compact: bool = False) -> tuple[ContextInput, AssembledContext]:
        """Return what to send; a conversation that is too long, or of which it is asked, is compacted first."""
        given = self._collect_input()
        assembled = assemble(given, sizes=self._sizes)
        if (assembled.needs_compaction or compact) and await self._compact(given, covered=assembled.covered):
            given = self._collect_input()
            assembled = assemble(given, sizes=self._sizes)
        return given, assembled

    async def build_request(self, given: ContextInput, assembled: AssembledContext) -> ModelRequest:
        """Return the call."""
        agent, library, lease = self._ctx.agent, self._ctx.library, self._ctx.lease
        return ModelRequest(
            run_id=self._ctx.run.id,
            system=assembled.system,
            messages=await inline_files(assembled.messages, lambda file: library.file(lease, file)),
            tools=given.tools.definitions,
            settings=ModelSettings(temperature=agent.temperature, thinking=agent.thinking),
            position=self._ctx.conversation.position,
        )

    def take_snapshot(self, given: ContextInput, assembled: AssembledContext, *, step: int) -> ContextSnapshot:
        """Return what was sent in a step, to be read back."""
        return take_snapshot(assembled, given, step=step, model=self._ctx.model.name)

    def _collect_input(self) -> ContextInput:
        work, talk = self._ctx, self._ctx.conversation
        plan = _convert_value(work.values.get("plan"), Plan) or Plan()
        prompt = PromptInput(
            agent=work.agent,
            run=work.run,
            workspace=self._workspace,
            now=_truncate_to_hour(talk.goal.created_at if talk.goal is not None else work.run.created_at),
            locale=work.thread.locale or work.agent.locale,
            plan=plan,
            todo=_convert_value(work.values.get("todo"), Todo) or Todo(),
        )
        return ContextInput(
            messages=talk.messages,
            whole=talk.whole,
            goal=talk.goal,
            segments=self._prompt_composer.compose(prompt),
            window=work.model.context_window,
            tools=self._tool_measurer.measure(work.toolbox.visible(values=work.values, run_id=work.run.id)),
            compaction=self._stored_compaction(),
            reminders=build_reminders(
                talk.messages,
                run_id=work.run.id,
                iterations=work.iterations,
                goal=talk.goal,
                plan=plan,
                drift_every=work.agent.anti_drift_every,
            ),
        )

    def _stored_compaction(self) -> Compaction:
        return decode_compaction(self._ctx.values.get(COMPACTION_VALUE))

    async def _read_history(self, given: ContextInput) -> ContextInput:
        """Read what is older than the messages in hand and told by no summary, so that this one tells it."""
        talk = self._ctx.conversation
        first = talk.messages[0].sequence if talk.messages else None
        if first is None or talk.whole:
            return given
        earlier = await self._ctx.journal.history(self._ctx.lease, before=first, limit=MAX_HISTORY_MESSAGES)
        talk.prepend(earlier, whole=len(earlier) < MAX_HISTORY_MESSAGES)
        return replace(given, messages=talk.messages, whole=talk.whole)

    async def _compact(self, given: ContextInput, *, covered: bool) -> bool:
        """Make the conversation shorter; return whether it is."""
        if not covered:
            given = await self._read_history(given)
        plan = _convert_value(self._ctx.values.get("plan"), Plan) or Plan()
        window = self._ctx.thread.context_window
        planned = plan_compaction(given, plan=plan, run_id=self._ctx.run.id, context_window=window, sizes=self._sizes)
        if planned is None:
            return False
        made = (
            planned.compaction
            if isinstance(planned, CollapsePlan)
            else apply_summary(planned, await self._write_summary(planned.request), sizes=self._sizes)
        )
        self._ctx.set_values({COMPACTION_VALUE: msgspec.to_builtins(made)})
        if made.failed_tries:
            return False
        self._emit_compacted(made)
        return True

    def _emit_compacted(self, made: Compaction) -> None:
        through = made.through if made.through is not None else max(s.end.message_sequence_num for s in made.collapsed)
        self._ctx.writer.emit_custom(
            ContextCompacted(through=through, tokens_before=made.tokens_before, tokens_after=made.tokens_after)
        )
        if made.through is not None:
            self._ctx.conversation.drop_through(made.through)

    async def _write_summary(self, request: ModelRequest) -> str:
        """Have the model write a summary, and charge it; for one that broke off, about what it used."""
        texts: list[str] = []
        told = self._sizes.count_text(request.system) + sum(map(self._sizes.count_message, request.messages))
        # One that the model does not write frees nothing, which is a failed try: after two the run goes on without.
        with suppress(ModelRefused, ModelUnavailable, TimeoutError):
            patience = self._ctx.config.commit_interval.idle_timeout_for(self._ctx.model)
            async with asyncio.timeout(patience), self._ctx.model.stream(request) as deltas:
                async for delta in deltas:
                    if isinstance(delta, TextDelta):
                        texts.append(delta.text)
                    elif isinstance(delta, ModelFinished):
                        self._ctx.add_usage(
                            self._ctx.usage_or_estimate(
                                delta.usage, prompt_tokens=told, response_text=lambda: "".join(texts)
                            )
                        )
                        return "".join(texts)
        if texts:
            self._ctx.add_usage(self._ctx.estimate_usage(told, self._sizes.count_text("".join(texts))))
        return ""


_Value = TypeVar("_Value", bound=msgspec.Struct)


def _convert_value(value: Json, kind: type[_Value]) -> _Value | None:
    return None if value is None else msgspec.convert(value, kind)


def _truncate_to_hour(at: Instant) -> Instant:
    """Return the hour of a moment: a text that changes rarely is cached by providers, and kept once."""
    return Instant(f"{at[:13]}:00Z")


AnyMessage: TypeAlias = Message | NewMessage
FileReader: TypeAlias = Callable[[FileId], Awaitable[StoredFile]]


async def inline_files(messages: Sequence[AnyMessage], read: FileReader) -> Sequence[AnyMessage]:
    """Return messages with the bytes of our files in place of their names; most messages name none."""
    if not any(stored_file_ids(message.content) for message in messages):
        return messages
    return [replace(message, content=await _inline_content(message.content, read)) for message in messages]


async def _inline_content(content: Content, read: FileReader) -> Content:
    return content if isinstance(content, str) else [await _inline_part(part, read) for part in content]


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
