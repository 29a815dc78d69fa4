"""Redaction: removes known secret values, and strings that look like keys, from tool output and logs.

A stream holds text back for as long as it may be the start of a secret.
"""

from collections.abc import Iterable, Iterator, Mapping
from string import ascii_letters, digits
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.artifact import NewArtifact
from holdfast.domain.content import Json
from holdfast.domain.events.custom import FileChanged, HoldfastEvent
from holdfast.domain.linear_regex import LinearRegex, is_unicode
from holdfast.domain.tool import ToolSpec
from holdfast.tools.thread_pool import run_in_thread
from holdfast.tools.tool import CallNext, Tool, ToolContext, ToolResult, wrap_tool

REDACTED: Final = "[redacted]"
_REPLACEMENT: Final = rf"\1{REDACTED}"
MIN_SECRET_CHARS: Final = 8
"""Characters of a known secret: a shorter one would match unrelated text."""
MAX_KEY_CHARS: Final = 512
"""Characters of a key that is recognized by its form in an unfinished line."""
MAX_INLINE_CHARS: Final = 64 * 1024
"""Characters of a result that are redacted on the event loop."""
MAX_LINE_CHARS: Final = 4096
"""Characters of an unfinished line that a stream holds back."""
_KEY_CHARS: Final = f"{ascii_letters}{digits}_.-"

_API_KEY: Final = LinearRegex(
    r"(^|[^A-Za-z0-9])(?:"
    r"sk-(?:ant-|proj-)?[A-Za-z0-9_-]{20,}"  # OpenAI, Anthropic and others with the same prefix
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{35}|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|(?:sk|rk)_live_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9_-]{30,}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"  # a JSON Web Token
    r")"
)
_KEY_MARKS: Final = (
    *("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "AIza", "AKIA", "ASIA"),
    *("k_live_", "hf_", "npm_", "pypi-", "eyJ"),
)
"""Every key that is recognized by its form has one of these: most texts have none, and are not matched."""
_PRIVATE_KEY: Final = LinearRegex(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)")
_PRIVATE_KEY_BEGIN: Final = LinearRegex(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_PRIVATE_KEY_END: Final = LinearRegex(r"-----END [A-Z ]*PRIVATE KEY-----")
_SECRET_NAME: Final = LinearRegex(r"(?:API_?KEY|ACCESS_?KEY|SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIALS?)(?:_|\z)")


class Redaction:
    """Replaces secrets in texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # Secrets are matched line by line, the longest first, since one may be the prefix of another.
        lines = {line.strip() for secret in secrets for line in secret.splitlines()}
        self._secrets = sorted((line for line in lines if len(line) >= MIN_SECRET_CHARS), key=len, reverse=True)
        self.max_secret_chars = max([MAX_KEY_CHARS, *map(len, self._secrets)])

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, REDACTED)
        if "PRIVATE KEY-----" in text:
            text = _PRIVATE_KEY.sub(REDACTED, text)
        for mark in _KEY_MARKS:  # a loop: `any` takes twice as long, and every chunk of a stream comes here
            if mark in text:
                break
        else:
            if is_unicode(text):
                return text
        redacted = _API_KEY.sub(_REPLACEMENT, text)
        # A key right behind another one is found in the second pass: the first consumed the character between them.
        return redacted if redacted == text else _API_KEY.sub(_REPLACEMENT, redacted)

    def json(self, value: Json) -> Json:
        """Return a JSON value without secrets, in names too."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(name): self.json(part) for name, part in value.items()}
            case list() | tuple():
                return [self.json(part) for part in value]
            case _:
                return value

    def cut_before_secret(self, text: str, end: int) -> int:
        """Return `end`, or the start of a secret that a cut at `end` would split."""
        return min((start for start, stop in self._spans(text) if start < end < stop), default=end)

    def end_of_secret(self, text: str) -> int:
        """Return the end of the longest secret at the start of a text."""
        return max((stop for start, stop in self._spans(text) if start == 0), default=0)

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where the secrets in a text start and end."""
        for secret in self._secrets:
            start = text.find(secret)
            while start >= 0:
                yield start, start + len(secret)
                start = text.find(secret, start + len(secret))
        yield from ((match.end(1), match.end()) for match in _API_KEY.finditer(text))
        for pattern in (_PRIVATE_KEY_BEGIN, _PRIVATE_KEY_END):
            yield from (match.span() for match in pattern.finditer(text))


class RedactedStream:
    """Redacts a text that arrives in pieces, and passes it on in whole lines."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._buffer = ""
        self._in_key = False
        self._in_private_key = False

    def feed(self, piece: str) -> str:
        """Add a piece, and return the text that is ready to be shown."""
        if self._in_key:
            piece = piece.lstrip(_KEY_CHARS)
            self._in_key = not piece
        self._buffer += piece
        length = max(self._buffer.rfind("\n"), self._buffer.rfind("\r")) + 1
        if length == 0 and len(self._buffer) > MAX_LINE_CHARS + self._redaction.max_secret_chars:
            length = len(self._buffer) - self._redaction.max_secret_chars
            length = self._redaction.cut_before_secret(self._buffer, length)
            if length == 0:  # a key without an end: nothing of it is shown, and nothing is held back
                length = self._redaction.end_of_secret(self._buffer)
                self._in_key = length == len(self._buffer)
        return self._take(length)

    def end(self) -> str:
        """Return the rest of the text."""
        return self._take(len(self._buffer))

    def _take(self, length: int) -> str:
        text, self._buffer = self._buffer[:length], self._buffer[length:]
        if self._in_private_key:
            end = _PRIVATE_KEY_END.search(text)
            if end is None:
                return ""
            text = text[end.end() :]
        begins = [match.end() for match in _PRIVATE_KEY_BEGIN.finditer(text)]
        self._in_private_key = bool(begins) and _PRIVATE_KEY_END.search(text[begins[-1] :]) is None
        return self._redaction.text(text)


def secret_values(environment: Mapping[str, str], *, named: Iterable[str] = ()) -> list[str]:
    """Return the values of variables that look secret by their name, and of those in `named`."""
    names = {name for name in environment if _SECRET_NAME.search(name.upper())} | {*named}
    return [environment[name] for name in sorted(names) if environment.get(name)]


def with_redaction(tool: Tool, redaction: Redaction) -> Tool:
    """Return `tool` with secrets redacted in its results."""

    async def redact(spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext) -> ToolResult:
        return await redact_result(await call_next(), redaction)

    return wrap_tool(tool, redact)


async def redact_result(result: ToolResult, redaction: Redaction) -> ToolResult:
    """Return a result without secrets; a large one is redacted in a thread, because it may hold thousands."""

    def redacted() -> ToolResult:
        return replace(
            result,
            content=redaction.json(result.content),
            artifacts=[_redact_artifact(artifact, redaction) for artifact in result.artifacts],
            events=[_redact_event(event, redaction) for event in result.events],
        )

    chars = sum(len(artifact.content or "") for artifact in result.artifacts)
    chars += len(result.content if isinstance(result.content, str) else msgspec.json.encode(result.content))
    return redacted() if chars <= MAX_INLINE_CHARS else await run_in_thread(lambda _: redacted())


def _redact_artifact(artifact: NewArtifact, redaction: Redaction) -> NewArtifact:
    if artifact.content is None:
        return artifact
    return replace(artifact, title=redaction.text(artifact.title), content=redaction.text(artifact.content))


def _redact_event(event: HoldfastEvent, redaction: Redaction) -> HoldfastEvent:
    if isinstance(event, FileChanged) and isinstance(event.diff, str):
        return replace(event, diff=redaction.text(event.diff))
    return event
