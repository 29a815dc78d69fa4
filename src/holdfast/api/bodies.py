"""Request bodies of the native API. Unknown fields are rejected, so a misspelt field never goes unnoticed.

No body has a `created_by`: the author of a change is the principal of the request.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from holdfast.domain.artifact import ArtifactType, NewArtifact
from holdfast.domain.content import Content, Json
from holdfast.domain.cron import MAX_DELAY_SECONDS
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import ArtifactId, FileId, InterruptId, MessageId, RunId, SpaceId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.limits import MAX_SAFE_INTEGER, Limits
from holdfast.domain.message import MAX_INPUT_MESSAGES, NewMessage, Role
from holdfast.domain.new_run import MAX_TAG_CHARS, MAX_TAGS, NewRun, RunBase
from holdfast.domain.placement import OnBusy
from holdfast.domain.run import Priority
from holdfast.domain.space import MAX_SPACE_NAME_CHARS
from holdfast.domain.task_ids import run_id_of
from holdfast.domain.thread import (
    DEFAULT_CONTEXT_WINDOW_MESSAGES,
    MAX_THREAD_TITLE_CHARS,
    Locale,
    NewThread,
    ThreadPatch,
)

_Sequence = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
_Number = Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)]
_Name = Annotated[str, Meta(min_length=1, max_length=256)]
Id = Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_-]{1,128}$"})
"""Documents the format of ids; the domain checks it, with a better message."""
_Title = Annotated[str, Meta(extra_json_schema={"maxLength": MAX_THREAD_TITLE_CHARS})]
_SpaceName = Annotated[str, Meta(extra_json_schema={"maxLength": MAX_SPACE_NAME_CHARS})]
_Tag = Annotated[str, Meta(extra_json_schema={"maxLength": MAX_TAG_CHARS})]
_Tags = Annotated[list[_Tag], Meta(extra_json_schema={"maxItems": MAX_TAGS})]
"""Documents limits that the domain checks, with a better message."""
_Window = Annotated[int, Meta(ge=1, le=1000)]


class SpaceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new space."""

    id: Annotated[SpaceId, Id]
    name: _SpaceName | None = None
    """Defaults to the id."""
    metadata: dict[str, Json] = {}


class ThreadBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new thread."""

    id: Annotated[ThreadId, Id] | None = None
    title: _Title | None = None
    agent_type: _Name | None = None
    """The agent of runs that name none; defaults to the default agent of the workspace."""
    locale: Locale | None = None
    context_window: _Window = DEFAULT_CONTEXT_WINDOW_MESSAGES
    metadata: dict[str, Json] = {}

    def new_thread(self) -> NewThread:
        """Convert to the domain type; the use case chooses the agent."""
        return NewThread(
            id=self.id,
            title=self.title,
            locale=self.locale,
            context_window=self.context_window,
            metadata=self.metadata,
        )


class ThreadChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a thread; an absent field stays as it is."""

    title: _Title | None | UnsetType = UNSET
    agent_type: _Name | UnsetType = UNSET
    locale: Locale | None | UnsetType = UNSET
    context_window: _Window | UnsetType = UNSET
    metadata: dict[str, Json] | UnsetType = UNSET

    def patch(self) -> ThreadPatch:
        """Convert to the domain type."""
        return ThreadPatch(**msgspec.structs.asdict(self))


class InputMessageBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input message of a run."""

    content: Content
    role: Literal["user", "assistant", "system"] = "user"
    id: Annotated[MessageId, Id] | None = None
    revises: Annotated[MessageId, Id] | None = None
    """The message that this one replaces."""
    metadata: dict[str, Json] = {}

    def new_message(self) -> NewMessage:
        """Convert to the domain type."""
        return NewMessage(
            role=Role(self.role), content=self.content, id=self.id, revises=self.revises, metadata=self.metadata
        )


_Messages = Annotated[list[InputMessageBody], Meta(extra_json_schema={"maxItems": MAX_INPUT_MESSAGES})]


class RunBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new run: with `messages`, or with an `input` that becomes one user message.

    Without `base_run_id` it continues the newest run of the thread; with null it starts a new root.
    """

    messages: _Messages | UnsetType = UNSET
    input: Json | UnsetType = UNSET
    id: Annotated[RunId, Id] | None = None
    agent_type: _Name | None = None
    model: _Name | None = None
    base_run_id: Annotated[RunId, Id] | None | UnsetType = UNSET
    base_sequence: _Sequence | None = None
    """The message after which the run continues; by default the end of its base."""
    on_busy: OnBusy = OnBusy.ENQUEUE
    priority: Priority = Priority.NORMAL
    tags: _Tags = []
    limits: Limits = Limits()
    output_schema: dict[str, Json] | UnsetType = UNSET
    """The JSON Schema that the output must match; by default that of the agent."""
    after_seconds: Annotated[float, Meta(ge=0, le=MAX_DELAY_SECONDS)] | UnsetType = UNSET
    """Start the run after this time; a restart of the server does not lose it."""
    run_at: Instant | None = None
    """Start the run at this time, or now if it has passed."""

    def new_run(self, thread: ThreadId | NewThread, *, key: str | None) -> NewRun:
        """Convert to the domain type."""
        if self.id is not None and run_id_of(self.id) != self.id:
            raise Invalid(f"`{self.id}` has the prefix of a task id: choose an id without it", field="id")
        base: RunBase | None | UnsetType
        if self.base_run_id is None or self.base_run_id is UNSET:
            if self.base_sequence is not None:
                raise Invalid("`base_sequence` needs a `base_run_id`", field="base_sequence")
            base = self.base_run_id
        else:
            base = RunBase(run_id=run_id_of(self.base_run_id), sequence=self.base_sequence)
        return NewRun(
            thread=thread,
            messages=self._new_messages(),
            input=None if self.input is UNSET else self.input,
            id=self.id,
            agent_type=self.agent_type,
            model=self.model,
            base=base,
            on_busy=self.on_busy,
            priority=self.priority,
            tags=self.tags,
            limits=self.limits,
            output_schema=self.output_schema,
            wait_until=self.run_at,
            delay_seconds=self.after_seconds,
            idempotency_key=key,
        )

    def _new_messages(self) -> list[NewMessage]:
        if (self.messages is UNSET) == (self.input is UNSET):
            raise Invalid("a run needs either `messages` or `input`", field="messages")
        if self.input is None:
            raise Invalid("`input` may be any JSON value but null", field="input")
        if self.messages is not UNSET:
            return [message.new_message() for message in self.messages]
        text = self.input if isinstance(self.input, str) else msgspec.json.encode(self.input).decode()
        return [NewMessage(role=Role.USER, content=text)]


class ThreadRunBody(RunBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new run on a new thread; it has no base."""

    thread: ThreadBody = ThreadBody()
    """The new thread; without an agent of its own it gets that of the run."""

    def new_run_on_thread(self, *, default_agent: str, key: str | None) -> NewRun:
        """Convert to the domain type."""
        agent = self.thread.agent_type or self.agent_type or default_agent
        return self.new_run(replace(self.thread.new_thread(), agent_type=agent), key=key)


class CancelBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason for a cancellation."""

    reason: Annotated[str, Meta(max_length=500)] | None = None


class InterruptResponseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A response to an interrupt of a run."""

    response: Json
    interrupt_id: Annotated[InterruptId, Id] | None = None
    """Needed only if several interrupts are open."""
    digest: str | None = None
    """The digest of the approved arguments, as in the interrupt; a different one is refused."""


class RetryBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"starts_at": "from"}):
    """Where a retry continues: after the last settled step, or from the start."""

    starts_at: Literal["last_step", "start"] = "last_step"


class SteeringBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to an active run."""

    content: Content
    id: Annotated[MessageId, Id] | None = None


class ArtifactBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new artifact; with the `id` of an existing one, its next version.

    Without a `media_type` it has that of its file, or `text/plain`.
    """

    type: ArtifactType
    title: _Title
    content: str | None = None
    file_id: Annotated[FileId, Id] | None = None
    id: Annotated[ArtifactId, Id] | None = None
    media_type: str | None = None
    metadata: dict[str, Json] = {}

    def new_artifact(self) -> NewArtifact:
        """Convert to the domain type."""
        return NewArtifact(**msgspec.structs.asdict(self))


class ReadBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Notifications to mark as read: one by `number`, all up to `through`, or all."""

    number: _Number | None = None
    through: _Number | None = None
