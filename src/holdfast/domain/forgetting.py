"""Forgetting: what to remove, and the removal of a text from every copy of it.

A tombstone keeps the id, role and place of a message, and says when it was forgotten and by whom. Copies elsewhere are
found by the whole text and by each of its sentences, in plain text and inside JSON.
"""

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import MemoryId, MessageId, RunId, ThreadId
from holdfast.domain.instant import Instant

FORGOTTEN_TEXT: Final = "[forgotten]"
FORGOTTEN_METADATA_KEY: Final = "forgotten"
"""Metadata key of a tombstone: when it was forgotten, and by whom."""
MAX_FORGET_IDS: Final = 1_000
MIN_COPY_CHARS: Final = 12
"""The shortest sentence that is searched for in other texts: a shorter one may be anybody's."""
MAX_SENTENCES: Final = 20_000
_SENTENCE_ENDS: Final = ".!?。！？\n"


class ForgetRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A selection of what to forget: one or more of the first seven fields, which are added up."""

    ids: list[MemoryId] = []
    message_ids: list[MessageId] = []
    thread_id: ThreadId | None = None
    run_id: RunId | None = None
    entity: str | None = None
    """The memories about an entity."""
    author: str | None = None
    """The memories and messages of an author."""
    before: Instant | None = None
    """The memories and messages from before this time; alone, or as a limit of `author` and `entity`."""
    sources: bool = True
    """Whether the runs that selected memories came from are forgotten with them."""
    dry_run: bool = False


class ForgetReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was forgotten, or would be."""

    dry_run: bool
    memories: int = 0
    versions: int = 0
    edges: int = 0
    messages: int = 0
    events: int = 0
    copies: int = 0
    """Other rows in which a copy of a forgotten text was replaced."""
    items: int = 0
    """Entries of the search index."""
    threads: int = 0
    """Threads whose summary, key points and search text were dropped."""
    memory_ids: list[MemoryId] = []
    forgotten_at: Instant
    forgotten_by: str | None = None


def check_forget_request(request: ForgetRequest) -> None:
    """Raise if `request` selects nothing, or too much at once."""
    names = ("ids", "message_ids", "thread_id", "run_id", "entity", "author", "before")
    if not any(getattr(request, name) for name in names):
        raise Invalid(f"name what to forget, with one of {', '.join(f'`{name}`' for name in names)}")
    if max(len(request.ids), len(request.message_ids)) > MAX_FORGET_IDS:
        raise Invalid(f"at most {MAX_FORGET_IDS} ids can be forgotten at once", field="ids")


def copies_to_find(texts: Iterable[str], *, quotations: Iterable[str] = ()) -> list[str]:
    """Return the texts, their sentences and their quotations to replace in other texts, longest first.

    A quotation may end within a sentence; a part of a sentence alone may be anybody's.
    """
    found: dict[str, None] = {}
    for text in texts:
        whole = text.strip()
        for part in (whole, *_sentences(whole)):
            if _is_distinct(part):
                found[part] = None
    found |= dict.fromkeys(part for each in quotations if _is_distinct(part := each.strip()))
    return sorted(found, key=len, reverse=True)[:MAX_SENTENCES]


class TextEraser:
    """Replaces copies of forgotten texts, in plain text and as they are escaped in JSON, once or twice."""

    def __init__(self, texts: Iterable[str], *, quotations: Iterable[str] = ()) -> None:
        forms: dict[str, None] = {}
        for text in copies_to_find(texts, quotations=quotations):
            escaped = _escape(text)
            for form in (text, escaped, _escape(escaped)):
                forms[form] = None
        self._forms: Sequence[str] = sorted(forms, key=len, reverse=True)

    def erase(self, text: str) -> str:
        """Return `text` without the copies; the same object if there are none. JSON stays JSON."""
        for form in self._forms:
            at = text.find(form)
            while at >= 0:
                # A backslash may escape the first character of what is found: `\\n` before `ever` is no `never`.
                before = text[:at].rstrip("\\")
                text = before + FORGOTTEN_TEXT + text[at + len(form) :]
                at = text.find(form, len(before) + len(FORGOTTEN_TEXT))
        return text


class QuotedIn(Enum):
    """Where a message or memory is quoted by its id."""

    PROMPT = "prompt"
    """Lines of a prompt."""
    JSON_PROMPT = "json_prompt"
    """Lines of a prompt in JSON."""
    RESULT = "result"
    """Results of tools, which are JSON in JSON."""


class QuotationEraser:
    """Replaces what quotes messages and memories by their ids, however short it is."""

    def __init__(self, ids: Iterable[str]) -> None:
        names = f"(?:{'|'.join(map(re.escape, sorted(ids)))})"
        lines = {
            QuotedIn.PROMPT: (r"(?m:^)", r"[^\n]*"),
            QuotedIn.JSON_PROMPT: (r"""(?:(?<=")|(?<=\\n))""", r"""(?:[^"\\]|\\[^n])*"""),
        }
        self._patterns = {
            where: re.compile(rf"{start}- (?:\[{names} · {rest}|{rest} \({names} · {rest})")
            for where, (start, rest) in lines.items()
        }
        text = r"""(?:[^"\\]|\\\\(?:\\["\\]|[^"\\]))*"""
        self._patterns[QuotedIn.RESULT] = re.compile(
            rf'''(\\"id\\":\\"{names}\\",[^{{}}]*?\\"text\\":\\"){text}(?=\\")'''
        )

    def erase(self, text: str, *, where: QuotedIn) -> str:
        """Return a text without the quotations."""
        if where is QuotedIn.RESULT:
            return self._patterns[where].sub(rf"\1{FORGOTTEN_TEXT}", text)
        return self._patterns[where].sub(f"- {FORGOTTEN_TEXT}", text)


def tombstone_metadata(*, at: Instant, by: str | None) -> dict[str, Json]:
    """Return the metadata of a forgotten message."""
    return {FORGOTTEN_METADATA_KEY: {"at": at, "by": by}}


def is_forgotten(metadata: dict[str, Any]) -> bool:
    """Return whether a message with this metadata is a tombstone."""
    return FORGOTTEN_METADATA_KEY in metadata


def _is_distinct(text: str) -> bool:
    """Return whether a copy of `text` is surely one: several words, or half as many characters of a script without.

    A single word may be an id, which other rows need.
    """
    if text.isascii():
        return len(text) >= MIN_COPY_CHARS and " " in text
    return len(text) >= MIN_COPY_CHARS // 2


def _sentences(text: str) -> Iterable[str]:
    start = 0
    for index, char in enumerate(text):
        if char in _SENTENCE_ENDS:
            yield text[start : index + 1].strip()
            yield text[start:index].strip()
            start = index + 1
    yield text[start:].strip()


def _escape(text: str) -> str:
    return msgspec.json.encode(text).decode()[1:-1]
