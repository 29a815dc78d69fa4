"""Messages as they are sent, and how long they are."""

from typing import Final, TypeVar

import msgspec

from holdfast.domain.content import TextPart
from holdfast.domain.ids import MessageId
from holdfast.domain.message import Message, NewMessage, Role
from holdfast.domain.untrusted import mark_untrusted
from holdfast.ports.model import TokenCounter

PER_MESSAGE: Final = 4
"""Tokens around each message: who speaks, and where it ends."""
PER_ATTACHMENT: Final = 1_500
"""What a picture, a sound or a document is taken for; no provider says before."""
PROVIDER: Final = "provider"
"""Where in its metadata a message keeps what its provider wants back."""
MOST_KEPT: Final = 4_000


class Sized(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it is sent. `stored` says that it differs from the one in the log by its mark at most."""

    message: Message | NewMessage
    tokens: int
    stored: bool


class Sizes:
    """What was prepared and measured for a run. A message never changes, so each is looked at once."""

    def __init__(self, tokens: TokenCounter, *, most: int = MOST_KEPT) -> None:
        self._tokens = tokens
        self._most = most
        self._stored: dict[MessageId, Sized] = {}
        self._notes: dict[tuple[Role, str], Sized] = {}

    def stored(self, message: Message, *, tool: str | None = None) -> Sized:
        """Return a message of the log; `tool` is what it answers."""
        known = self._stored.get(message.id)
        if known is None:
            sent = mark_untrusted(message, tool=tool)
            known = Sized(message=sent, tokens=self.of(sent), stored=True)
            _keep(self._stored, message.id, known, most=self._most)
        return known

    def changed(self, message: NewMessage) -> Sized:
        """Return a message that is sent in place of one of the log."""
        return Sized(message=message, tokens=self.of(message), stored=False)

    def note(self, role: Role, text: str) -> Sized:
        """Return something that the runtime says."""
        known = self._notes.get((role, text))
        if known is None:
            known = self.changed(NewMessage(role=role, content=text))
            _keep(self._notes, (role, text), known, most=self._most)
        return known

    def of(self, message: Message | NewMessage) -> int:
        """Return about how many tokens a message has."""
        fixed, said = PER_MESSAGE, message.content
        if not isinstance(said, str):
            texts = [part.text for part in said if isinstance(part, TextPart)]
            fixed += PER_ATTACHMENT * (len(said) - len(texts))
            said = "\n".join(texts)
        if message.tool_calls:
            said += _json(message.tool_calls)
        if PROVIDER in message.metadata:
            said += _json(message.metadata[PROVIDER])
        return fixed + self._tokens.count(said)

    def text(self, text: str) -> int:
        """Return about how many tokens a text has."""
        return self._tokens.count(text)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


_Key = TypeVar("_Key")


def _keep(known: dict[_Key, Sized], key: _Key, sized: Sized, *, most: int) -> None:
    if len(known) >= most:
        del known[next(iter(known))]
    known[key] = sized
