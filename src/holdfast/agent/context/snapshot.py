"""The snapshot of an assembled context, so that what was sent in a step can be read back."""

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.agent.context.assembly import AssembledContext, ContextInput
from holdfast.agent.context.tokens import SizedMessage
from holdfast.domain.context import ContextSnapshot, SentPart, SentRange, SentSegment, SentText, text_digest
from holdfast.domain.message import Message, NewMessage


def take_snapshot(context: AssembledContext, context_input: ContextInput, *, step: int, model: str) -> ContextSnapshot:
    """Return the snapshot of the context that is sent in a step, with the texts that it refers to."""
    texts = {part.digest: part.text for part in context_input.segments}
    reminders = tuple(context_input.reminders)
    conversation = context.sent[: len(context.sent) - len(reminders)]
    return ContextSnapshot(
        step=step,
        model=model,
        segments=tuple(
            [SentSegment(name=part.name, digest=part.digest, tokens=part.tokens) for part in context_input.segments]
        ),
        conversation=tuple(_sent_conversation(conversation, context_input.messages, texts)),
        reminders=reminders,
        tools=_add_text(texts, context_input.tools.text),
        tokens=context.tokens,
        first_sequence=context.first_sequence,
        last_sequence=context.last_sequence,
        compaction_through=context.compaction.through,
        memory=_add_text(texts, msgspec.json.encode(list(context_input.memory)).decode())
        if context_input.memory
        else None,
        texts=texts,
    )


def _sent_conversation(
    conversation: Sequence[SizedMessage], window: Sequence[Message], texts: dict[str, str]
) -> Iterator[SentPart]:
    """Yield ranges of messages that are consecutive in the log, and all other messages as text."""
    indexes = {message.id: index for index, message in enumerate(window)}
    consecutive: list[Message] = []
    for each in conversation:
        message = each.message if each.stored and isinstance(each.message, Message) else None
        if message is None or message.sequence is None:
            yield from _range(consecutive)
            consecutive = []
            yield SentText(digest=_add_text(texts, _encode_message(each.message)))
            continue
        previous = indexes.get(consecutive[-1].id) if consecutive else None
        if previous is None or indexes.get(message.id) != previous + 1:
            yield from _range(consecutive)
            consecutive = []
        consecutive.append(message)
    yield from _range(consecutive)


def _range(messages: Sequence[Message]) -> Iterator[SentRange]:
    if messages and messages[0].sequence is not None and messages[-1].sequence is not None:
        yield SentRange(first=messages[0].sequence, last=messages[-1].sequence, count=len(messages))


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
    digest = text_digest(text)
    texts[digest] = text
    return digest
