"""Outlines of threads: title, summary, key points and search text, kept current after runs.

    messages after the cursor ──► rules ──(a model, if the settings name one)──► outline, cursor

Without a model an outline is made of quotations: the summary of the first request, the latest one and its answer, the
key points of the sentences that say most. What the rules make depends only on the messages, not on how they were
batched, so that a process that is killed leaves the same outline.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.errors import HoldfastError, NotFound
from holdfast.domain.ids import RunId
from holdfast.domain.instant import Instant
from holdfast.domain.limits import Usage
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.outline import (
    MAX_KEY_POINT_CHARS,
    MAX_KEY_POINTS,
    MAX_OUTLINE_SUMMARY_CHARS,
    MAX_OUTLINE_TITLE_CHARS,
    MAX_SEARCH_WORDS,
    OUTLINE_INSTRUCTIONS,
    OUTLINE_SCHEMA,
    SaidText,
    ThreadOutline,
    ThreadToOutline,
)
from holdfast.domain.thread import derive_title
from holdfast.memory.analyser import UNSPACED_CHARS, fold, terms
from holdfast.memory.rules import StatementKind, find_entities, own_sentences, statement_kind
from holdfast.ports.model import Model, ModelFinished, ModelRequest, Models, ModelSettings, TextDelta
from holdfast.ports.outlines import MAX_WORDS, ThreadOutlines

THREADS_PER_BATCH: Final = 8
MESSAGES_PER_BATCH: Final = 100
REST_FACTOR: Final = 4
"""How much longer than a batch took the outliner rests after it, so that runs keep most of the processor."""
MAX_REST_SECONDS: Final = 0.5
MAX_MODEL_CHARS: Final = 60_000
"""Characters of what was said that one model call reads; of more the end."""
MODEL_TIMEOUT_SECONDS: Final = 120.0
MAX_OUTPUT_TOKENS: Final = 2_000
MAX_OUTLINED_CHARS: Final = 20_000
"""Characters of a message that the rules read, from its start: anybody may send a message of any length."""
MIN_KEY_POINT_CHARS: Final = 12
_QUOTE_CHARS: Final = 300
_MAX_POINTS_OF_MESSAGE: Final = 3
_ANY_TIME: Final = Instant("2000-01-01T00:00:00.000Z")
_DECISION: Final = re.compile(
    r"\b(?:decided?|agreed|conclu(?:de|ded|sion)|in short|in summary|"
    r"the (?:answer|result|reason|problem|fix) (?:is|was)|we(?:'ll| will)|turned out|fixed|done)\b"
    "|決定|結論|決め|まとめ|原因|解決|完了|つまり",
    re.I,
)
_KIND_WEIGHTS: Final = {StatementKind.STANDING: 4.0, StatementKind.PREFERENCE: 3.0, StatementKind.EVENT: 3.0}
_DIGIT: Final = re.compile(r"\d")
_WORD: Final = re.compile(rf"[{UNSPACED_CHARS}]+|(?:(?![{UNSPACED_CHARS}])[^\W_])+")
_HIRAGANA: Final = re.compile("[\u3041-\u309f\u30fc]+")

_log = logging.getLogger("holdfast.memory")


def outline_by_rule(thread: ThreadToOutline) -> ThreadOutline:
    """Return the outline of a thread with what was said since the last one."""
    said = [replace(each, text=each.text[:MAX_OUTLINED_CHARS]) for each in thread.said]
    points = _best_points([*thread.outline.key_points, *(point for each in said for point in _key_points(each))])
    words = _latest_words(_search_words(thread.outline.retrieval_index), [each.text for each in said])
    title = thread.outline.title or (None if thread.first is None else derive_title(thread.first))
    return _with_search_text(ThreadOutline(title=title, summary=_summary(thread), key_points=points), words=words)


def _summary(thread: ThreadToOutline) -> str | None:
    """Return the first request, the latest one and what was answered to it."""
    asked = [said.text for said in thread.last if said.role is Role.USER]
    answered = [said.text for said in thread.last if said.role is Role.ASSISTANT]
    lines = [] if thread.first is None else [_quote(thread.first)]
    lines += [_quote(asked[-1])] if asked else []
    lines += [f"→ {_quote(answered[-1])}"] if answered else []
    return "\n".join(dict.fromkeys(lines)) or None


def _key_points(said: SaidText) -> list[str]:
    """Return the sentences of a message that may be key points: what a person asks or states, what was decided."""
    sentences = [" ".join(sentence.split()) for sentence in own_sentences(said.text)]
    sentences = [each for each in sentences if len(each) >= MIN_KEY_POINT_CHARS]
    if said.role is Role.ASSISTANT:
        sentences = [each for each in sentences if _DECISION.search(each)]
    cut = [_cut(each, MAX_KEY_POINT_CHARS) for each in sentences]
    best = sorted(cut, key=_weight, reverse=True)[:_MAX_POINTS_OF_MESSAGE]
    return [each for each in cut if each in best]


def _best_points(points: Sequence[str]) -> list[str]:
    """Return the points that weigh most, each once, in their order; of equal ones the earlier."""
    distinct = list({fold(point): point for point in reversed(points)}.values())[::-1]
    best = sorted(distinct, key=_weight, reverse=True)[:MAX_KEY_POINTS]
    return [point for point in distinct if point in best]


def _weight(sentence: str) -> float:
    """Return how much a sentence says. It depends on the sentence alone, so that the best of the best is the best."""
    kind = statement_kind(sentence, at=_ANY_TIME)
    if kind is not None:
        return _KIND_WEIGHTS[kind]
    weight = 2.0 if _DECISION.search(sentence) else 0.5
    weight += 0.5 if _DIGIT.search(sentence) else 0.0
    weight += 0.5 if find_entities(sentence) else 0.0
    return weight + (0.25 if sentence.endswith(("?", "？")) else 0.0)


def _search_words(text: str | None) -> list[str]:
    """Return the words of a search text, which are its last line."""
    return [] if text is None else text.rpartition("\n")[2].split()


def _latest_words(words: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return the distinct words with those of `texts` at the end; the oldest go."""
    latest = dict.fromkeys(words)
    for text in texts:
        parts = [part for word in _WORD.findall(fold(text)) for part in _HIRAGANA.split(word)]
        for part in dict.fromkeys(part for part in parts if _is_searched(part)):
            latest.pop(part, None)
            latest[part] = None
    return list(latest)[-MAX_SEARCH_WORDS:]


@lru_cache(4096)
def _is_searched(word: str) -> bool:
    return len(word) > 1 and bool(terms(word))


def _with_search_text(outline: ThreadOutline, *, words: Sequence[str]) -> ThreadOutline:
    parts = [outline.title or "", outline.summary or "", *outline.key_points]
    lines = [line for part in parts for line in fold(part).splitlines() if line.strip()]
    return replace(outline, retrieval_index="\n".join([*dict.fromkeys(lines), " ".join(words)]).strip() or None)


def query_words(query: str) -> list[str]:
    """Return the words of a query as outlines are searched for them: the beginnings of words, and unspaced runs."""
    words: list[str] = []
    for word in dict.fromkeys(_WORD.findall(fold(query))):
        found = terms(word)
        if found and not _HIRAGANA.fullmatch(word):
            unspaced = re.match(f"[{UNSPACED_CHARS}]", word) is not None
            words += [each for each in found if len(each) > 1] or found if unspaced else [found[0].rstrip("i") or word]
    return list(dict.fromkeys(words))[:MAX_WORDS]


def _quote(text: str) -> str:
    return _cut(" ".join(text.split()), _QUOTE_CHARS)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


class _ModelOutline(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the model."""

    title: str
    summary: str
    key_points: list[str]


class Outliner:
    """Keeps the outlines of all threads current."""

    def __init__(
        self,
        outlines: ThreadOutlines,
        *,
        models: Models,
        model: str | None,
        redact: Callable[[str], str],
        folder: str | None = None,
    ) -> None:
        """Outline threads by rule, and with the model named `model` if there is one; its paths are in `folder`."""
        self._folder = folder
        self._outlines = outlines
        self._models = models
        self._model = model
        self._redact = redact

    async def run_once(self) -> None:
        """Outline every thread that is behind, resting between batches."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            threads = await self._outlines.pending(limit=THREADS_PER_BATCH, messages=MESSAGES_PER_BATCH)
            for thread in threads:
                with suppress(NotFound):  # its space was deleted meanwhile
                    await self._outline(self._redacted(thread))
            if not threads:
                return
            await asyncio.sleep(min(REST_FACTOR * (loop.time() - began), MAX_REST_SECONDS))

    async def _outline(self, thread: ThreadToOutline) -> None:
        outline = await asyncio.to_thread(outline_by_rule, thread)
        usage = None
        if self._model is not None and thread.said:
            outline, usage = await self._ask_model(self._model, thread, outline)
        await self._outlines.put(thread, outline, model=self._model, usage=usage)

    def _redacted(self, thread: ThreadToOutline) -> ThreadToOutline:
        def clean(said: Sequence[SaidText]) -> list[SaidText]:
            return [replace(each, text=self._redact(each.text)) for each in said]

        first = None if thread.first is None else self._redact(thread.first)
        return replace(thread, first=first, said=clean(thread.said), last=clean(thread.last))

    async def _ask_model(
        self, name: str, thread: ThreadToOutline, by_rule: ThreadOutline
    ) -> tuple[ThreadOutline, Usage | None]:
        """Return the outline of the model with its usage; if it has none that is valid, that of the rules."""
        try:
            await self._models.prepare([name])
            async with asyncio.timeout(MODEL_TIMEOUT_SECONDS):
                text, usage = await _answer(self._models.find(name, folder=self._folder), thread)
        except (HoldfastError, TimeoutError) as exc:
            _log.warning("the outline of thread %s was made without `%s`: %s", thread.thread_id, name, exc)
            return by_rule, None
        try:
            made = msgspec.json.decode(text[text.find("{") : text.rfind("}") + 1], type=_ModelOutline)
        except (msgspec.DecodeError, RecursionError) as exc:
            _log.warning("the outline of thread %s by `%s` is not valid: %s", thread.thread_id, name, exc)
            return by_rule, usage
        clean = [self._redact(_one_line(part)) for part in (made.title, *made.key_points)]
        title, *points = [_cut(part, MAX_KEY_POINT_CHARS) for part in clean]
        summary = _cut(self._redact(made.summary.replace("\0", "").strip()), MAX_OUTLINE_SUMMARY_CHARS)
        outline = ThreadOutline(
            title=thread.outline.title if thread.titled else _cut(title, MAX_OUTLINE_TITLE_CHARS) or by_rule.title,
            summary=summary or by_rule.summary,
            key_points=[point for point in points if point][:MAX_KEY_POINTS],
        )
        return _with_search_text(outline, words=_search_words(by_rule.retrieval_index)), usage


def _one_line(text: str) -> str:
    return " ".join(text.replace("\0", "").split())


async def _answer(model: Model, thread: ThreadToOutline) -> tuple[str, Usage]:
    """Return what the model answers, and its usage."""
    room, said = MAX_MODEL_CHARS, list[SaidText]()
    for each in reversed(thread.said):
        room -= len(each.text)
        if room < 0 and said:
            break
        said.insert(0, each)
    lines = [{"outline": {"summary": thread.outline.summary, "key_points": thread.outline.key_points}}]
    asked = [msgspec.json.encode(line).decode() for line in lines]
    asked += [msgspec.json.encode({"role": each.role, "text": each.text[:MAX_MODEL_CHARS]}).decode() for each in said]
    request = ModelRequest(
        run_id=RunId(f"outline-{thread.thread_id}"),
        system=OUTLINE_INSTRUCTIONS,
        messages=[NewMessage(role=Role.USER, content="\n".join(asked))],
        settings=ModelSettings(max_output_tokens=MAX_OUTPUT_TOKENS),
        output_schema=OUTLINE_SCHEMA,
    )
    texts: list[str] = []
    async with model.stream(request) as deltas:
        async for delta in deltas:
            if isinstance(delta, TextDelta):
                texts.append(delta.text)
            elif isinstance(delta, ModelFinished):
                return "".join(texts), delta.usage
    raise AssertionError("a stream ends with ModelFinished or an error")
