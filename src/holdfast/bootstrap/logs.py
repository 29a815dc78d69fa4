"""Logging of a process: text or JSON lines on stderr, with secrets redacted."""

import logging
import os
import sys
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TextIO

import msgspec

if TYPE_CHECKING:
    from holdfast.tools.redaction import Redaction

_QUIET_LOGGERS: Final = ("uvicorn", "uvicorn.error", "asyncio", "websockets")


class LogFormat(StrEnum):
    """Format of log lines."""

    TEXT = "text"
    JSON = "json"


class TextLogFormatter(logging.Formatter):
    """Lines such as `12:00:01.250 GET /health 200 0.4 ms`, with the level unless it is INFO."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line, followed by the traceback."""
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        line = f"{_format_second(int(record.created), '%H:%M:%S')}.{int(record.msecs):03d} {level}{record.getMessage()}"
        return line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"


class JsonLogFormatter(logging.Formatter):
    """One JSON object per line, with the fields of the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a JSON object."""
        line = {
            "time": f"{_format_second(int(record.created), '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info is not None:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class StderrStream(logging.StreamHandler[TextIO]):
    """Handler of a line-buffered stream such as stderr."""

    def flush(self) -> None:
        """Do nothing: the stream flushes each line."""


class RedactingFormatter(logging.Formatter):
    """Redacts secrets from the lines of another formatter."""

    def __init__(self, formatter: logging.Formatter, redaction: "Redaction") -> None:
        super().__init__()
        self._formatter = formatter
        self.redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        """Return a line without secrets."""
        return self.redaction.text(self._formatter.format(record))


def configure_logging(kind: LogFormat, *, level: int = logging.INFO) -> None:
    """Log to stderr, without secrets."""
    from holdfast.tools.redaction import Redaction, secret_values  # its patterns take 20 ms, and `--help` needs none

    handler = StderrStream(sys.stderr)
    formatter = TextLogFormatter() if kind is LogFormat.TEXT else JsonLogFormatter()
    handler.setFormatter(RedactingFormatter(formatter, Redaction(secret_values(os.environ))))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    # Skip unused record fields, as the `logging` manual advises: finding the caller is the largest cost under load.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.getLogger("holdfast").setLevel(level)
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


def redact_logs(redaction: "Redaction") -> None:
    """Replace the redaction of the process log, once more secrets are known."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, RedactingFormatter):
            handler.formatter.redaction = redaction


@lru_cache(maxsize=8)  # most lines share their second with the one before
def _format_second(seconds: int, pattern: str) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime(pattern)
