"""Settings without what is secret in them, and back: who sends what is hidden as it is shown leaves it as it is."""

import re
from typing import Final

from holdfast.domain.content import Json
from holdfast.tools.redaction import REDACTED, Redaction

_SECRET: Final = frozenset({"env", "headers", "parameters"})
"""Objects whose values are for servers and nobody else."""
_REFERENCE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_PRIVATE: Final = re.compile(r"(?<=://)[^/?#@\s]+(?=@)|(?<=\?)[^#\s]+")
"""Of an address: who logs in, and what is asked."""


class Hiding:
    """Hides the secrets of settings."""

    def __init__(self, redaction: Redaction) -> None:
        """Hide what `redaction` finds, values of variables and headers, and logins and queries in addresses."""
        self._redaction = redaction

    def hidden(self, value: Json, *, secret: bool = False) -> Json:
        """Return settings as they are shown."""
        match value:
            case dict():
                return {name: self.hidden(part, secret=secret or name in _SECRET) for name, part in value.items()}
            case list():
                return [self.hidden(part, secret=secret) for part in value]
            case str() if secret:
                return value if _REFERENCE.fullmatch(value) else REDACTED
            case str():
                return self._redaction.text(_PRIVATE.sub(REDACTED, value) if "://" in value else value)
            case _:
                return value

    def restored(self, shown: Json, written: Json, *, secret: bool = False) -> Json:
        """Return a patch with what is `written` in place of what was sent back as it is shown."""
        if shown == self.hidden(written, secret=secret):
            return written
        if isinstance(shown, dict) and isinstance(written, dict):
            return {
                name: self.restored(part, written[name], secret=secret or name in _SECRET) if name in written else part
                for name, part in shown.items()
            }
        return shown
