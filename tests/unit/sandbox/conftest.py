"""Processes to run commands with."""

from collections.abc import AsyncIterator

import pytest

from holdfast.sandbox.processes import SupervisedProcesses, open_processes
from tests.unit.sandbox.commands import pass_over_others


@pytest.fixture(autouse=True)
def _pass_over_others() -> None:
    """Leave alone what was there before a test."""
    pass_over_others()


@pytest.fixture
async def processes() -> AsyncIterator[SupervisedProcesses]:
    async with open_processes() as processes:
        yield processes
