"""What a run knows of files: the digests of those that it read or wrote last, in the value `files` of the run.

A file that a model has not read, or that changed since, is not written over: it would not know what it destroys.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.working_path import WorkingPath
from holdfast.tools.values import written

VALUE: Final = "files"
MAX_KNOWN: Final = 256
"""Files; of more, those that were read or written last are known."""


class KnownFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as a run knows it."""

    path: str
    digest: str


class KnownFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a run knows, the latest last, and in which working folder."""

    folder: str
    files: tuple[KnownFile, ...] = ()


def known_digest(values: Mapping[str, Json], folder: str, path: WorkingPath) -> str | None:
    """Return the digest under which the run knows a file."""
    known = _read(values.get(VALUE), folder)
    return next((file.digest for file in known.files if file.path == path), None)


def knowing(folder: str, path: WorkingPath, digest: str) -> dict[str, Callable[[Json], Json]]:
    """Return the revision of a run's values by which it knows a file."""

    def revise(value: Json) -> Json:
        others = [file for file in _read(value, folder).files if file.path != path]
        files = (*others, KnownFile(path=path, digest=digest))[-MAX_KNOWN:]
        return written(KnownFiles(folder=folder, files=files))

    return {VALUE: revise}


def _read(value: Json, folder: str) -> KnownFiles:
    try:
        found = msgspec.convert(value, KnownFiles)
    except msgspec.ValidationError:
        return KnownFiles(folder=folder)  # there is none yet, or nothing that we wrote: what is not known is read again
    return found if found.folder == folder else KnownFiles(folder=folder)
