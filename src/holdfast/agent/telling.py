"""What the model is told in its next call: the context, kept short enough, and a snapshot of it."""

import asyncio
from contextlib import suppress
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.agent.attachments import with_files
from holdfast.agent.context.assembly import Assembled, ContextInput, assemble
from holdfast.agent.context.compaction import Collapse, apply_summary, plan_compaction
from holdfast.agent.context.reminders import reminders
from holdfast.agent.context.sizes import Sizes
from holdfast.agent.context.snapshot import take
from holdfast.agent.context.tools import Offers
from holdfast.agent.prompt.compose import PromptInput, Prompts
from holdfast.agent.work import Work
from holdfast.domain.content import Json
from holdfast.domain.context import Compaction, ContextSnapshot, decode_compaction
from holdfast.domain.errors import ModelRefused, ModelUnavailable
from holdfast.domain.events.custom import ContextCompacted
from holdfast.domain.instant import Instant
from holdfast.domain.plan import Plan, Todo
from holdfast.ports.model import ModelFinished, ModelRequest, ModelSettings, TextDelta

COMPACTION: Final = "compaction"
MOST_READ_BACK: Final = 500
"""Messages that are read for a summary beside those in hand."""


class Telling:
    """Assembles the calls of one run."""

    def __init__(self, work: Work, prompts: Prompts, offers: Offers, *, workspace: str) -> None:
        self._work = work
        self._prompts = prompts
        self._offers = offers
        self._workspace = workspace
        self._sizes = Sizes(work.tokens)

    async def tell(self, *, compact: bool = False) -> tuple[ContextInput, Assembled]:
        """Return what to send; a conversation that is too long, or of which it is asked, is compacted first."""
        given = self._given()
        assembled = assemble(given, sizes=self._sizes)
        if (assembled.needs_compaction or compact) and await self._compact(given, covered=assembled.covered):
            given = self._given()
            assembled = assemble(given, sizes=self._sizes)
        return given, assembled

    async def request(self, given: ContextInput, assembled: Assembled) -> ModelRequest:
        """Return the call."""
        agent, library, lease = self._work.agent, self._work.library, self._work.lease
        return ModelRequest(
            run_id=self._work.run.id,
            system=assembled.system,
            messages=await with_files(assembled.messages, lambda file: library.file(lease, file)),
            tools=given.tools.definitions,
            settings=ModelSettings(temperature=agent.temperature, thinking=agent.thinking),
            position=self._work.conversation.position,
        )

    def snapshot(self, given: ContextInput, assembled: Assembled, *, step: int) -> ContextSnapshot:
        """Return what was sent in a step, to be read back."""
        return take(assembled, given, step=step, model=self._work.model.name)

    def _given(self) -> ContextInput:
        work, talk = self._work, self._work.conversation
        plan = _read(work.values.get("plan"), Plan) or Plan()
        prompt = PromptInput(
            agent=work.agent,
            run=work.run,
            workspace=self._workspace,
            now=_hour(talk.goal.created_at if talk.goal is not None else work.run.created_at),
            locale=work.thread.locale or work.agent.locale,
            plan=plan,
            todo=_read(work.values.get("todo"), Todo) or Todo(),
        )
        return ContextInput(
            messages=talk.messages,
            whole=talk.whole,
            goal=talk.goal,
            segments=self._prompts.compose(prompt),
            window=work.model.context_window,
            tools=self._offers.of(work.toolbox.visible(values=work.values, run_id=work.run.id)),
            compaction=self._compaction(),
            reminders=reminders(
                talk.messages,
                run_id=work.run.id,
                iterations=work.iterations,
                goal=talk.goal,
                plan=plan,
                drift_every=work.agent.anti_drift_every,
            ),
        )

    def _compaction(self) -> Compaction:
        return decode_compaction(self._work.values.get(COMPACTION))

    async def _reach_back(self, given: ContextInput) -> ContextInput:
        """Read what is older than the messages in hand and told by no summary, so that this one tells it."""
        talk = self._work.conversation
        first = talk.messages[0].sequence if talk.messages else None
        if first is None or talk.whole:
            return given
        earlier = await self._work.journal.history(self._work.lease, before=first, limit=MOST_READ_BACK)
        talk.reach_back(earlier, whole=len(earlier) < MOST_READ_BACK)
        return replace(given, messages=talk.messages, whole=talk.whole)

    async def _compact(self, given: ContextInput, *, covered: bool) -> bool:
        """Make the conversation shorter; return whether it is."""
        if not covered:
            given = await self._reach_back(given)
        plan = _read(self._work.values.get("plan"), Plan) or Plan()
        window = self._work.thread.context_window
        planned = plan_compaction(given, plan=plan, run_id=self._work.run.id, context_window=window, sizes=self._sizes)
        if planned is None:
            return False
        made = (
            planned.compaction
            if isinstance(planned, Collapse)
            else apply_summary(planned, await self._summary(planned.request), sizes=self._sizes)
        )
        self._work.set_values({COMPACTION: msgspec.to_builtins(made)})
        if made.failed_tries:
            return False
        self._tell_of(made)
        return True

    def _tell_of(self, made: Compaction) -> None:
        through = made.through if made.through is not None else max(s.end.message_sequence_num for s in made.collapsed)
        self._work.log.tell(
            ContextCompacted(through=through, tokens_before=made.tokens_before, tokens_after=made.tokens_after)
        )
        if made.through is not None:
            self._work.conversation.forget(made.through)

    async def _summary(self, request: ModelRequest) -> str:
        """Have the model write a summary, and charge it; for one that broke off, about what it used."""
        texts: list[str] = []
        told = self._sizes.text(request.system) + sum(map(self._sizes.of, request.messages))
        # One that the model does not write frees nothing, which is a failed try: after two the run goes on without.
        with suppress(ModelRefused, ModelUnavailable, TimeoutError):
            patience = self._work.habits.pace.patience(self._work.model)
            async with asyncio.timeout(patience), self._work.model.stream(request) as deltas:
                async for delta in deltas:
                    if isinstance(delta, TextDelta):
                        texts.append(delta.text)
                    elif isinstance(delta, ModelFinished):
                        self._work.charge(self._work.counted(delta.usage, told=told, said=lambda: "".join(texts)))
                        return "".join(texts)
        if texts:
            self._work.charge(self._work.estimate(told, self._sizes.text("".join(texts))))
        return ""


_Value = TypeVar("_Value", bound=msgspec.Struct)


def _read(value: Json, kind: type[_Value]) -> _Value | None:
    return None if value is None else msgspec.convert(value, kind)


def _hour(at: Instant) -> Instant:
    """Return the hour of a moment: a text that changes rarely is cached by providers, and kept once."""
    return Instant(f"{at[:13]}:00Z")
