"""Processes to run commands with."""

from collections.abc import AsyncIterator

import pytest

from holdfast.sandbox.processes import SupervisedProcesses, open_processes


@pytest.fixture
async def processes() -> AsyncIterator[SupervisedProcesses]:
    async with open_processes() as processes:
        yield processes
