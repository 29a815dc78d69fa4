"""A workspace with a working folder, tested with every opener."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from holdfast.sandbox.safe_open import Opener, has_openat2, open_by_openat2, open_by_walk
from holdfast.sandbox.working_folders import OpenFolder, WorkspaceFolders

OPENERS: Final = {"openat2": open_by_openat2, "walk": open_by_walk}


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest) -> Opener:
    if request.param == "openat2" and not has_openat2():
        pytest.skip("this kernel has no openat2, or forbids it")
    return OPENERS[request.param]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with secrets outside of it."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("secret")
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.fixture
def root(place: Path) -> Iterator[int]:
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    yield handle
    os.close(handle)


@pytest.fixture
def folder(place: Path, opener: Opener) -> Iterator[OpenFolder]:
    with WorkspaceFolders(place.parent, opener=opener).open("files") as folder:
        yield folder
