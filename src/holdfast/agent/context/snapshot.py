"""Taking the snapshot of a context that was assembled."""

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.agent.context.assembly import AssembledContext, ContextInput
from holdfast.agent.context.tokens import SizedMessage
from holdfast.domain.context import ContextSnapshot, SentPart, SentRange, SentSegment, SentText, text_digest
from holdfast.domain.ids import MessageId
from holdfast.domain.message import Message, NewMessage


def take_snapshot(assembled: AssembledContext, given: ContextInput, *, step: int, model: str) -> ContextSnapshot:
    """Return the snapshot of what is sent in a step, with the texts that it names."""
    texts = {part.digest: part.text for part in given.segments}
    reminders = tuple(given.reminders)
    said = assembled.sent[: len(assembled.sent) - len(reminders)]
    return ContextSnapshot(
        step=step,
        model=model,
        segments=tuple(
            [SentSegment(name=part.name, digest=part.digest, tokens=part.tokens) for part in given.segments]
        ),
        conversation=tuple(_sent_conversation(said, given.messages, texts)),
        reminders=reminders,
        tools=_add_text(texts, given.tools.text),
        tokens=assembled.tokens,
        first_sequence=assembled.first_sequence,
        last_sequence=assembled.last_sequence,
        compaction_through=assembled.compaction.through,
        texts=texts,
    )


def _sent_conversation(
    said: Sequence[SizedMessage], window: Sequence[Message], texts: dict[str, str]
) -> Iterator[SentPart]:
    """Yield ranges of messages that follow each other in the log, and everything else as text."""
    places = {message.id: index for index, message in enumerate(window)}
    run: list[Message] = []
    for each in said:
        message = each.message if each.stored and isinstance(each.message, Message) else None
        if message is None or message.sequence is None:
            yield from _range(run)
            run = []
            yield SentText(digest=_add_text(texts, _encode_message(each.message)))
        elif run and _follows(places, run[-1].id, message.id):
            run.append(message)
        else:
            yield from _range(run)
            run = [message]
    yield from _range(run)


def _follows(places: dict[MessageId, int], one: MessageId, other: MessageId) -> bool:
    return one in places and other in places and places[other] == places[one] + 1


def _range(run: Sequence[Message]) -> Iterator[SentRange]:
    if run and run[0].sequence is not None and run[-1].sequence is not None:
        yield SentRange(first=run[0].sequence, last=run[-1].sequence, count=len(run))


def _encode_message(message: Message | NewMessage) -> str:
    if isinstance(message, Message):
        message = NewMessage(
            role=message.role,
            content=message.content,
            id=message.id,
            tool_calls=message.tool_calls,
            tool_call_id=message.tool_call_id,
        )
    return msgspec.json.encode(message).decode()


def _add_text(texts: dict[str, str], text: str) -> str:
    name = text_digest(text)
    texts[name] = text
    return name
