"""Request bodies of the native API. Unknown fields are rejected, so a misspelt field never goes unnoticed.

The author of a change comes from the API key, not from the body: there is no `created_by` here.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.domain.artifact import ArtifactType, NewArtifact
from holdfast.domain.content import Content, Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import ArtifactId, FileId, InterruptId, MessageId, RunId, SpaceId, ThreadId
from holdfast.domain.limits import MAX_SAFE_INTEGER, Limits
from holdfast.domain.message import MAX_INPUT_MESSAGES, NewMessage, Role
from holdfast.domain.new_run import MAX_TAG_CHARS, MAX_TAGS, NewRun, RunBase
from holdfast.domain.placement import OnBusy
from holdfast.domain.run import Priority
from holdfast.domain.space import MAX_SPACE_NAME_CHARS
from holdfast.domain.task_ids import run_id_of
from holdfast.domain.thread import DEFAULT_CONTEXT_WINDOW, MAX_THREAD_TITLE_CHARS, NewThread, ThreadPatch

_Sequence = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
_Number = Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)]
_Name = Annotated[str, Meta(min_length=1, max_length=256)]
_Id = Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_-]{1,128}$"})
"""What an id looks like; the domain says what is wrong with one that does not."""
_Title = Annotated[str, Meta(extra_json_schema={"maxLength": MAX_THREAD_TITLE_CHARS})]
_SpaceName = Annotated[str, Meta(extra_json_schema={"maxLength": MAX_SPACE_NAME_CHARS})]
_Tag = Annotated[str, Meta(extra_json_schema={"maxLength": MAX_TAG_CHARS})]
_Tags = Annotated[list[_Tag], Meta(extra_json_schema={"maxItems": MAX_TAGS})]
"""Limits that the domain checks, as it says what is too long."""
_Window = Annotated[int, Meta(ge=1, le=1000)]


class SpaceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A space to be made."""

    id: Annotated[SpaceId, _Id]
    name: _SpaceName | None = None
    """Its id, unless given."""
    metadata: dict[str, Json] = {}


class ThreadBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A thread to be made."""

    id: Annotated[ThreadId, _Id] | None = None
    title: _Title | None = None
    agent_type: _Name | None = None
    """The agent that its runs are of where they do not say so; the workspace's default one, unless given."""
    locale: str | None = None
    context_window: _Window = DEFAULT_CONTEXT_WINDOW
    metadata: dict[str, Json] = {}

    def new_thread(self) -> NewThread:
        """Return it as the domain knows it; its agent is chosen elsewhere."""
        return NewThread(
            id=self.id,
            title=self.title,
            locale=self.locale,
            context_window=self.context_window,
            metadata=self.metadata,
        )


class ThreadChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client may change of a thread; what is absent stays."""

    title: _Title | None | UnsetType = UNSET
    agent_type: _Name | UnsetType = UNSET
    locale: str | None | UnsetType = UNSET
    context_window: _Window | UnsetType = UNSET
    metadata: dict[str, Json] | UnsetType = UNSET

    def patch(self) -> ThreadPatch:
        """Return it as the domain knows it."""
        return ThreadPatch(
            title=self.title,
            agent_type=self.agent_type,
            locale=self.locale,
            context_window=self.context_window,
            metadata=self.metadata,
        )


class InputMessageBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that a run begins with."""

    content: Content
    role: Literal["user", "assistant", "system"] = "user"
    id: Annotated[MessageId, _Id] | None = None
    revises: Annotated[MessageId, _Id] | None = None
    """The message that this one is said instead of."""
    metadata: dict[str, Json] = {}

    def new_message(self) -> NewMessage:
        """Return it as the domain knows it."""
        return NewMessage(
            role=Role(self.role), content=self.content, id=self.id, revises=self.revises, metadata=self.metadata
        )


_Messages = Annotated[list[InputMessageBody], Meta(extra_json_schema={"maxItems": MAX_INPUT_MESSAGES})]


class RunBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to be made: with `messages`, or with an `input` that is said as one message of a user.

    Without `base_run_id` it continues the newest run of the thread; with null it begins a new root.
    """

    messages: _Messages | UnsetType = UNSET
    input: Json | UnsetType = UNSET
    id: Annotated[RunId, _Id] | None = None
    agent_type: _Name | None = None
    model: _Name | None = None
    base_run_id: Annotated[RunId, _Id] | None | UnsetType = UNSET
    base_sequence: _Sequence | None = None
    """The message after which it continues; the end of its base, unless given."""
    on_busy: OnBusy = OnBusy.ENQUEUE
    priority: Priority = Priority.NORMAL
    tags: _Tags = []
    limits: Limits = Limits()

    def new_run(self, thread: ThreadId, *, key: str | None) -> NewRun:
        """Return it as the domain knows it."""
        if self.id is not None and run_id_of(self.id) != self.id:
            raise Invalid(f"`{self.id}` would be the name of a task: choose an id that begins otherwise", field="id")
        return NewRun(
            thread=thread,
            messages=self._new_messages(),
            input=None if self.input is UNSET else self.input,
            id=self.id,
            agent_type=self.agent_type,
            model=self.model,
            base=self._base(),
            on_busy=self.on_busy,
            priority=self.priority,
            tags=self.tags,
            limits=self.limits,
            idempotency_key=key,
        )

    def _new_messages(self) -> list[NewMessage]:
        if (self.messages is UNSET) == (self.input is UNSET):
            raise Invalid("a run begins with either `messages` or an `input`", field="messages")
        if self.input is None:
            raise Invalid("`input` is what the run is told: it may be any JSON but null", field="input")
        if self.messages is not UNSET:
            return [message.new_message() for message in self.messages]
        text = self.input if isinstance(self.input, str) else msgspec.json.encode(self.input).decode()
        return [NewMessage(role=Role.USER, content=text)]

    def _base(self) -> RunBase | None | UnsetType:
        if self.base_run_id is None or self.base_run_id is UNSET:
            if self.base_sequence is not None:
                raise Invalid("`base_sequence` is a place in the run that `base_run_id` names", field="base_sequence")
            return self.base_run_id
        return RunBase(run_id=run_id_of(self.base_run_id), sequence=self.base_sequence)


class CancelBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run is cancelled."""

    reason: Annotated[str, Meta(max_length=500)] | None = None


class InterruptResponseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to a question of a run."""

    response: Json
    interrupt_id: Annotated[InterruptId, _Id] | None = None
    """Needed only where several questions are open."""
    digest: str | None = None
    """Of the arguments that an approval approves, as the interrupt shows it: another one is refused."""


class RetryBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"starts_at": "from"}):
    """Where to go on: after the last settled step, or from the start."""

    starts_at: Literal["last_step", "start"] = "last_step"


class SteeringBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something to tell a run on its way."""

    content: Content
    id: Annotated[MessageId, _Id] | None = None


class ArtifactBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A result to be kept; under the `id` of an earlier one it becomes its next version."""

    type: ArtifactType
    title: _Title
    content: str | None = None
    file_id: Annotated[FileId, _Id] | None = None
    id: Annotated[ArtifactId, _Id] | None = None
    media_type: str = "text/plain"
    metadata: dict[str, Json] = {}

    def new_artifact(self) -> NewArtifact:
        """Return it as the domain knows it."""
        return NewArtifact(
            type=self.type,
            title=self.title,
            content=self.content,
            file_id=self.file_id,
            id=self.id,
            media_type=self.media_type,
            metadata=self.metadata,
        )


class ReadBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which notifications were read: one `number`, all up to `through`, or all there are."""

    number: _Number | None = None
    through: _Number | None = None
