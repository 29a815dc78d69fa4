"""What runs here, in versions."""

import platform
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import holdfast
from holdfast.bootstrap.doctor.finding import Finding, failure, well

OLDEST_SQLITE: Final = (3, 37, 0)
"""It has `RETURNING` and strict typing of what is returned."""

_OTHERS: Final = ("litestar", "uvicorn", "pydantic-ai-slim", "asyncpg", "opentelemetry-sdk")


def look_at_versions() -> list[Finding]:
    """Return the versions of what matters."""
    others = "".join(f", {name} {found}" for name in _OTHERS if (found := _version(name)))
    told = f"holdfast {holdfast.__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        remedy = f"use a Python that comes with SQLite {oldest} or later, or PostgreSQL"
        return [failure("versions", f"{told}: this SQLite is too old", remedy=remedy)]
    return [well("versions", f"{told}{others}")]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
