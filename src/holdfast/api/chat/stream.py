"""The stream of a chat: where it takes place, what the agent says, and at last the answer as a whole.

event: session      once
event: delta     …  one for each piece of text
event: done         or `error`, the last word
"""

import msgspec

from holdfast.api.errors import envelope
from holdfast.api.streams.speech import SpeechStream
from holdfast.control.chat.chats import ChatControl
from holdfast.control.feeds.follower import Follower
from holdfast.control.openai.completion import Begun
from holdfast.control.task_contract.ids import task_id_of
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError


class ChatStream(SpeechStream):
    """An ASGI app that sends what an agent says to a message."""

    def __init__(self, chats: ChatControl, begun: Begun, follower: Follower) -> None:
        """Send what comes; `follower` begins where the answer does."""
        super().__init__(follower)
        self._chats = chats
        self._begun = begun

    def _first(self) -> bytes:
        run = self._begun.run
        return _event("session", {"sessionId": run.thread_id, "taskId": task_id_of(run.id)})

    def _piece(self, text: str) -> bytes:
        return _event("delta", {"text": text})

    async def _last(self) -> bytes:
        reply, question = await self._chats.replied(self._begun)
        asked = self._piece(self._after_speech(question)) if question else b""
        return asked + _event("done", reply)

    def _refusal(self, error: HoldfastError) -> bytes:
        return _event("error", envelope(error))


def _event(name: str, data: Json | msgspec.Struct) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data, enc_hook=str))
