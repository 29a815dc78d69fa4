"""Fixtures: processes to run commands with."""

from collections.abc import AsyncIterator

import pytest

from holdfast.sandbox.processes import SupervisedProcesses, open_processes
from tests.unit.sandbox.commands import ignore_existing_supervisors


@pytest.fixture(autouse=True)
def _ignore_existing_supervisors() -> None:
    """Ignore supervisors that were there before the test."""
    ignore_existing_supervisors()


@pytest.fixture
async def processes() -> AsyncIterator[SupervisedProcesses]:
    async with open_processes() as processes:
        yield processes
