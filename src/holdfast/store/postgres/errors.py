"""Translation of PostgreSQL and driver errors into Holdfast errors."""

import asyncio
from typing import Final

from asyncpg import exceptions as pg

from holdfast.domain.errors import Conflict, HoldfastError, Invalid, StoreCorrupt, StoreFull, StoreReadOnly, Unavailable
from holdfast.store.transaction import RetryTransaction

DRIVER_ERRORS: Final = (
    pg.PostgresError,
    pg.InterfaceError,
    pg.InternalClientError,  # the server said goodbye while nobody asked
    OSError,
    EOFError,
    asyncio.TimeoutError,
    UnicodeEncodeError,
    OverflowError,
)
"""What a call of the driver may raise."""

_TRANSLATIONS: Final[tuple[tuple[tuple[type[BaseException], ...], type[HoldfastError], str], ...]] = (
    ((pg.DiskFullError,), StoreFull, "the disk of the database is full: nothing of this was written"),
    ((pg.ReadOnlySQLTransactionError,), StoreReadOnly, "the database takes no writes"),
    ((pg.DataCorruptedError, pg.IndexCorruptedError), StoreCorrupt, "the database is damaged"),
    ((pg.UniqueViolationError,), Conflict, "something with this name is there already"),
    (
        (pg.DataError, pg.CharacterNotInRepertoireError, UnicodeEncodeError, OverflowError),
        Invalid,
        "this cannot be stored",
    ),
    (
        (pg.InvalidCatalogNameError, pg.InvalidAuthorizationSpecificationError),
        Unavailable,
        "the database cannot be opened",
    ),
    (
        (
            pg.PostgresConnectionError,
            pg.OperatorInterventionError,
            pg.InsufficientResourcesError,
            pg.LockNotAvailableError,
            pg.InterfaceError,
            pg.InternalClientError,
            OSError,
            EOFError,
            asyncio.TimeoutError,
        ),
        Unavailable,
        "the database does not answer",
    ),
)
"""The first that fits counts."""


def translate_error(exc: BaseException) -> BaseException:
    """Return what `exc` means to a caller; what means nothing to it is for the store itself."""
    if isinstance(exc, pg.DeadlockDetectedError | pg.SerializationError):
        return RetryTransaction("another transaction was in the way")
    for kinds, meaning, message in _TRANSLATIONS:
        if isinstance(exc, kinds):
            return meaning(f"{message} ({str(exc) or type(exc).__name__})")
    return exc
