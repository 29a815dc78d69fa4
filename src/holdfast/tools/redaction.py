"""Redaction: removes known secret values, and strings that look like keys, from tool output and logs.

In a stream, text is held back for as long as a secret may have started in it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from holdfast.domain.artifact import NewArtifact
from holdfast.domain.content import Json
from holdfast.domain.events.custom import FileChanged, HoldfastEvent
from holdfast.domain.tool import ToolSpec
from holdfast.tools.tool import CallNext, Tool, ToolContext, ToolResult, wrap_tool

REDACTED: Final = "[redacted]"
MIN_SECRET_CHARS: Final = 8
"""Characters: anything shorter is found in texts that have nothing to do with it."""
MAX_KEY_CHARS: Final = 512
"""Characters of a key that is known by its looks, as far as that is waited for in a line that does not end."""
MAX_LINE_CHARS: Final = 4096
"""Characters after which the end of a line is no longer waited for."""

_API_KEY: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?:ant-|proj-)?[A-Za-z0-9_-]{20,}"  # OpenAI, Anthropic and those who took it over
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{35}|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|(?:sk|rk)_live_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9_-]{30,}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"  # a JSON Web Token
    r")"
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_PRIVATE_KEY_BEGIN: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_PRIVATE_KEY_END: Final = re.compile(r"-----END [A-Z ]*PRIVATE KEY-----")
_SECRET_NAME: Final = re.compile(r"(?:API_?KEY|ACCESS_?KEY|SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIALS?)(?:_|\Z)")


class Redaction:
    """Takes secrets out of texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # By line, since that is how a text is looked at; the longest first, since one may be the beginning of another.
        lines = {line.strip() for secret in secrets for line in secret.splitlines()}
        self._known = sorted((line for line in lines if len(line) >= MIN_SECRET_CHARS), key=len, reverse=True)
        self.max_secret_chars = max([MAX_KEY_CHARS, *map(len, self._known)])

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        for secret in self._known:
            if secret in text:
                text = text.replace(secret, REDACTED)
        if "PRIVATE KEY-----" in text:
            text = _PRIVATE_KEY.sub(REDACTED, text)
        return _API_KEY.sub(REDACTED, text)

    def json(self, value: Json) -> Json:
        """Return any JSON without secrets, in names too."""
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
        """Return `end`, or the beginning of a secret that would be cut there."""
        patterns = [
            *(re.compile(re.escape(secret)) for secret in self._known),
            _API_KEY,
            _PRIVATE_KEY_BEGIN,
            _PRIVATE_KEY_END,
        ]
        cut = [found.start() for one in patterns for found in one.finditer(text) if found.start() < end < found.end()]
        return min(cut, default=end)


class RedactedStream:
    """A text that comes in pieces, without secrets, however they are cut: it goes on by whole lines."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._held = ""
        self._in_key = False

    def feed(self, piece: str) -> str:
        """Take the next piece, and return what can be shown by now."""
        self._held += piece
        line = max(self._held.rfind("\n"), self._held.rfind("\r")) + 1
        if line == 0 and len(self._held) > MAX_LINE_CHARS + self._redaction.max_secret_chars:
            line = self._redaction.cut_before_secret(self._held, len(self._held) - self._redaction.max_secret_chars)
        return self._take(line)

    def end(self) -> str:
        """Return the rest."""
        return self._take(len(self._held))

    def _take(self, length: int) -> str:
        shown, self._held = self._held[:length], self._held[length:]
        return self._redaction.text(self._after_private_key(shown))

    def _after_private_key(self, text: str) -> str:
        """Return what comes after a private key that had begun before, and see whether another one begins."""
        if self._in_key:
            end = _PRIVATE_KEY_END.search(text)
            if end is None:
                return ""
            text = text[end.end() :]
        begun = [found.end() for found in _PRIVATE_KEY_BEGIN.finditer(text)]
        self._in_key = bool(begun) and _PRIVATE_KEY_END.search(text, begun[-1]) is None
        return text


def secret_values(environment: Mapping[str, str], *, named: Iterable[str] = ()) -> list[str]:
    """Return the values that are secret by the name of their variable, or by being `named` as such."""
    names = {name for name in environment if _SECRET_NAME.search(name.upper())} | {*named}
    return [environment[name] for name in sorted(names) if environment.get(name)]


def with_redaction(tool: Tool, redaction: Redaction) -> Tool:
    """Return `tool`, of whose outcome secrets are taken out before anyone else sees it."""

    async def around(spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], go: CallNext) -> ToolResult:
        return _redact_result(await go(), redaction)

    return wrap_tool(tool, around)


def _redact_result(outcome: ToolResult, redaction: Redaction) -> ToolResult:
    return replace(
        outcome,
        content=redaction.json(outcome.content),
        artifacts=[_redact_artifact(one, redaction) for one in outcome.artifacts],
        events=[_redact_event(one, redaction) for one in outcome.events],
    )


def _redact_artifact(artifact: NewArtifact, redaction: Redaction) -> NewArtifact:
    if artifact.content is None:
        return artifact
    return replace(artifact, title=redaction.text(artifact.title), content=redaction.text(artifact.content))


def _redact_event(event: HoldfastEvent, redaction: Redaction) -> HoldfastEvent:
    if isinstance(event, FileChanged) and isinstance(event.diff, str):
        return replace(event, diff=redaction.text(event.diff))
    return event
