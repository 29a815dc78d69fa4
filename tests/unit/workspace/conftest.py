"""A workspace on disk, with no agent in it."""

from pathlib import Path

import pytest

from holdfast.workspace.folder import Workspace
from tests.unit.workspace.workspace_files import FakeClock


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "home" / "agents").mkdir(parents=True)
    return Workspace(tmp_path / "home")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
