"""Translation of PostgreSQL and driver errors into Holdfast errors."""

import asyncio
from typing import Final

from asyncpg import exceptions as pg

from holdfast.domain.errors import Conflict, HoldfastError, Invalid, StoreCorrupt, StoreFull, StoreReadOnly, Unavailable
from holdfast.store.transaction import RetryTransaction

DRIVER_ERRORS: Final = (
    pg.PostgresError,
    pg.InterfaceError,
    pg.InternalClientError,  # the server closed an idle connection
    OSError,
    EOFError,
    asyncio.TimeoutError,
    UnicodeEncodeError,
    OverflowError,
)
"""The errors that a call of the driver may raise."""

_TRANSLATIONS: Final[tuple[tuple[tuple[type[BaseException], ...], type[HoldfastError], str], ...]] = (
    ((pg.DiskFullError,), StoreFull, "the disk of the database is full, so nothing was written: free some space"),
    ((pg.ReadOnlySQLTransactionError,), StoreReadOnly, "the database is read-only: connect to its primary server"),
    (
        (pg.DataCorruptedError, pg.IndexCorruptedError),
        StoreCorrupt,
        "the database is damaged: restore it from a backup",
    ),
    ((pg.UniqueViolationError,), Conflict, "this name is already in use: choose another"),
    (
        (pg.DataError, pg.CharacterNotInRepertoireError, UnicodeEncodeError, OverflowError),
        Invalid,
        "the value cannot be stored",
    ),
    (
        (pg.InvalidCatalogNameError, pg.InvalidAuthorizationSpecificationError),
        Unavailable,
        "the database cannot be opened: check its URL and user",
    ),
    (
        (
            pg.PostgresConnectionError,
            pg.OperatorInterventionError,
            pg.IdleInTransactionSessionTimeoutError,
            pg.InsufficientResourcesError,
            pg.LockNotAvailableError,
            pg.InterfaceError,
            pg.InternalClientError,
            OSError,
            EOFError,
            asyncio.TimeoutError,
        ),
        Unavailable,
        "the database does not respond",
    ),
)
"""Driver errors, the Holdfast error and its message; the first match is used."""

_NOT_SENT: Final = "cannot switch to state"
"""How the driver's error starts when a statement was not sent, because the server had ended the session before."""


def translate_error(exc: BaseException) -> BaseException:
    """Return the Holdfast error for `exc`, `RetryTransaction` if a retry is safe, or `exc` itself if there is none."""
    if isinstance(exc, pg.DeadlockDetectedError | pg.SerializationError):
        return RetryTransaction("the transaction conflicted with another one")
    if isinstance(exc, pg.InternalClientError) and str(exc).startswith(_NOT_SENT):
        return RetryTransaction("the server closed the connection before the statement was sent")
    for kinds, error, message in _TRANSLATIONS:
        if isinstance(exc, kinds):
            return error(f"{message} ({str(exc) or type(exc).__name__})")
    return exc
