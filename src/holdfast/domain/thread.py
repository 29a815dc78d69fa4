"""A thread: a lasting conversation or piece of work, an append-only tree of runs."""

import re
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, ThreadClosed
from holdfast.domain.ids import SpaceId, ThreadId, check_client_id
from holdfast.domain.instant import Instant
from holdfast.domain.limits import ZERO_USAGE, Usage
from holdfast.domain.validation import check_search_text, check_text

MAX_THREAD_TITLE_CHARS: Final = 500
MAX_SUMMARY_CHARS: Final = 20_000
MAX_RETRIEVAL_INDEX_CHARS: Final = 1_000_000
DEFAULT_CONTEXT_WINDOW_MESSAGES: Final = 50
DEFAULT_AGENT: Final = "default"
_MAX_DERIVED_TITLE_CHARS: Final = 80
MAX_LOCALE_CHARS: Final = 35
_LOCALE_PATTERN: Final = (
    r"^[A-Za-z]{2,3}(-[A-Za-z]{3}){0,3}(-[A-Za-z]{4})?(-([A-Za-z]{2}|[0-9]{3}))?"
    r"(-([A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*(-[0-9A-WY-Za-wy-z](-[A-Za-z0-9]{2,8})+)*(-[Xx](-[A-Za-z0-9]{1,8})+)?\Z"
)
_LOCALE_EXPECTED: Final = "a language tag of BCP 47, such as `en`, `ja` or `pt-BR`"
Locale: TypeAlias = Annotated[
    str, Meta(pattern=_LOCALE_PATTERN, max_length=MAX_LOCALE_CHARS, extra={"expected": _LOCALE_EXPECTED})
]
"""A language tag that is well-formed by RFC 5646: language, script, region, variants, extensions, private use."""


class ThreadStatus(StrEnum):
    """Status of a thread; only an active one accepts new runs."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    DELETED = "deleted"


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation.

    A run never edits its thread: summary, key points and retrieval index are written by the indexer.
    """

    id: ThreadId
    space_id: SpaceId
    title: str | None
    agent_type: str
    status: ThreadStatus
    locale: str | None
    summary: str | None
    key_points: list[str]
    retrieval_index: str | None
    indexed_sequence: int
    context_window: int
    metadata: dict[str, Json]
    next_sequence: int
    last_run_at: Instant | None
    created_by: str | None
    created_at: Instant


class NewThread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A thread to create."""

    id: ThreadId | None = None
    title: str | None = None
    agent_type: str = DEFAULT_AGENT
    locale: str | None = None
    context_window: int = DEFAULT_CONTEXT_WINDOW_MESSAGES
    metadata: dict[str, Json] = {}
    created_by: str | None = None


class ThreadPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a thread; absent fields stay."""

    title: str | None | UnsetType = UNSET
    agent_type: str | UnsetType = UNSET
    status: ThreadStatus | UnsetType = UNSET
    locale: str | None | UnsetType = UNSET
    summary: str | None | UnsetType = UNSET
    key_points: list[str] | UnsetType = UNSET
    retrieval_index: str | None | UnsetType = UNSET
    context_window: int | UnsetType = UNSET
    metadata: dict[str, Json] | UnsetType = UNSET


class ThreadTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs of a thread and their sub-agents used, and the questions of theirs that are open."""

    usage: Usage = ZERO_USAGE
    open_questions: int = 0


class ThreadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of a list of threads; by default all that are not deleted and do not belong to a child run."""

    status: ThreadStatus | None = None
    agent_type: str | None = None
    title: str | None = None
    """A case-insensitive part of the title."""
    children: bool = False
    """Whether threads that were created for child runs are included."""


def check_new_thread(new: NewThread) -> None:
    """Raise if `new` is not a valid thread."""
    if new.id is not None:
        check_client_id(new.id, field="id")
    _check_texts(title=new.title, agent_type=new.agent_type, created_by=new.created_by)
    _check_locale(new.locale)
    _check_context_window(new.context_window)


def check_thread_patch(patch: ThreadPatch) -> None:
    """Raise if `patch` can never be applied."""
    changes = {name: value for name in patch.__struct_fields__ if (value := getattr(patch, name)) is not UNSET}
    if not changes:
        raise Invalid("the patch changes nothing: name at least one field")
    texts = ("title", "agent_type", "summary", "retrieval_index")
    _check_texts(**{name: changes[name] for name in texts if name in changes})
    _check_locale(changes.get("locale"))
    for point in changes.get("key_points", ()):
        check_text(point, field="key_points", max_chars=MAX_SUMMARY_CHARS)
    if "context_window" in changes:
        _check_context_window(changes["context_window"])


def check_thread_filter(where: ThreadFilter) -> None:
    """Raise if no thread can ever match `where`."""
    for field in ("title", "agent_type"):
        if (value := getattr(where, field)) is not None:
            check_search_text(value, field=field, max_chars=_MAX_CHARS[field])


def casefold_title(title: str | None) -> str | None:
    """Return `title` in the form used by case-insensitive search."""
    return None if title is None else title.casefold()


def check_accepts_runs(thread_id: ThreadId, status: ThreadStatus) -> None:
    """Raise unless the thread accepts new runs."""
    if status is not ThreadStatus.ACTIVE:
        raise ThreadClosed(f"thread `{thread_id}` is {status}: it accepts no new runs", status=str(status))


def check_not_deleted(thread_id: ThreadId, status: ThreadStatus) -> None:
    """Raise if the thread is deleted: its content may be read, but nothing may be added."""
    if status is ThreadStatus.DELETED:
        raise ThreadClosed(f"thread `{thread_id}` is deleted: nothing may be added to it", status=str(status))


_MAX_CHARS: Final = {
    "title": MAX_THREAD_TITLE_CHARS,
    "agent_type": 128,
    "summary": MAX_SUMMARY_CHARS,
    "created_by": 256,
}


def _check_texts(**texts: str | None) -> None:
    for field, value in texts.items():
        if value is not None:
            check_text(value, field=field, max_chars=_MAX_CHARS.get(field, MAX_RETRIEVAL_INDEX_CHARS))


def _check_locale(locale: str | None) -> None:
    if locale is not None and (len(locale) > MAX_LOCALE_CHARS or re.match(_LOCALE_PATTERN, locale) is None):
        raise Invalid(f"`locale`: expected {_LOCALE_EXPECTED}", field="locale")


def _check_context_window(size: int) -> None:
    if not 1 <= size <= 1000:
        raise Invalid("`context_window` must be between 1 and 1000 messages", field="context_window")


def derive_title(text: str) -> str | None:
    """Return a title for a thread that starts with `text`: its first line, shortened and without NUL characters."""
    first = text.replace("\0", "").strip().partition("\n")[0]
    return (first if len(first) <= _MAX_DERIVED_TITLE_CHARS else f"{first[: _MAX_DERIVED_TITLE_CHARS - 1]}…") or None
