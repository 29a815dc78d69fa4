"""Databases to break, one for each test."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from holdfast.testing.postgres import PostgresServer

_numbers = count(1)


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def places(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator["Places"]:
    yield Places()
