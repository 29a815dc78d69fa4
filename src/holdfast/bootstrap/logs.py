"""Logging of a process: text or JSON lines on stderr, with secrets redacted."""

import logging
import os
import sys
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, TextIO

import msgspec

from holdfast.tools.redaction import Redaction, secret_values

_QUIET_LOGGERS: Final = ("uvicorn", "uvicorn.error", "asyncio", "websockets")


class LogFormat(StrEnum):
    """Who reads it."""

    TEXT = "text"
    JSON = "json"


class TextLogFormatter(logging.Formatter):
    """`12:00:01.250 GET /health 200 0.4 ms`, with the level where it is not the usual one."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a line, and below it what was raised."""
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        line = f"{_format_second(int(record.created), '%H:%M:%S')}.{int(record.msecs):03d} {level}{record.getMessage()}"
        return line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"


class JsonLogFormatter(logging.Formatter):
    """One object for each line, with what the message says as fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Write an object."""
        line = {
            "time": f"{_format_second(int(record.created), '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "said", {}),
        }
        if record.exc_info is not None:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class StderrStream(logging.StreamHandler[TextIO]):
    """Writes to a stream that sends off each line by itself, as stderr does."""

    def flush(self) -> None:
        """Leave it to the stream."""


class RedactingFormatter(logging.Formatter):
    """Lines of another kind, without secrets."""

    def __init__(self, lines: logging.Formatter, redaction: Redaction) -> None:
        super().__init__()
        self._lines = lines
        self.redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        """Write a line that has no secret in it."""
        return self.redaction.text(self._lines.format(record))


def configure_logging(kind: LogFormat, *, level: int = logging.INFO) -> None:
    """Send the log of this process to stderr."""
    handler = StderrStream(sys.stderr)
    lines = TextLogFormatter() if kind is LogFormat.TEXT else JsonLogFormatter()
    handler.setFormatter(RedactingFormatter(lines, Redaction(secret_values(os.environ))))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    _skip_unused_record_fields()
    logging.getLogger("holdfast").setLevel(level)
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


def redact_logs(redaction: Redaction) -> None:
    """Take more secrets out of the log of this process, once they are known."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, RedactingFormatter):
            handler.formatter.redaction = redaction


def _skip_unused_record_fields() -> None:
    """Spare each line the search for who wrote it, as the manual of `logging` advises: under load that costs most."""
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


@lru_cache(maxsize=8)
def _format_second(seconds: int, pattern: str) -> str:
    """Write a second, which most lines share with those before them."""
    return datetime.fromtimestamp(seconds, tz=UTC).strftime(pattern)
