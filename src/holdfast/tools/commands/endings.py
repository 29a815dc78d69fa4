"""How a command ended, in words for a model."""

import signal
from collections.abc import Iterator

from holdfast.ports.sandbox import ProcessResult


def told(ended: ProcessResult, *, timeout: float) -> list[str]:
    """Return what there is to say about the end of a command, beside its output."""
    return list(_notes(ended, timeout))


def output_of(raw: bytes, *, dropped: int) -> str:
    """Return an output as text; where its middle was thrown away, a note stands for it."""
    if not dropped:
        return raw.decode(errors="replace")
    half = len(raw) - len(raw) // 2
    note = f"\n[{dropped} bytes were too many to keep]\n"
    return raw[:half].decode(errors="replace") + note + raw[half:].decode(errors="replace")


def _notes(ended: ProcessResult, timeout: float) -> Iterator[str]:
    if ended.crowded:
        yield "it was killed, because it had too many processes"
    elif ended.timed_out:
        yield f"it was killed after {timeout:g} seconds; what it had done by then is done"
    elif ended.signal is not None:
        yield f"it was killed by signal {ended.signal} ({_name(ended.signal)})"
    else:
        yield f"exit code {ended.exit_code}"


def _name(number: int) -> str:
    return next((known.name for known in signal.Signals if known == number), "a signal without a name")
