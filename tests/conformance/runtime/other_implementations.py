"""All implementations except the store's own, for suites that already run on the store."""

import pytest

from tests.conformance.runtime.implementations import IMPLEMENTATIONS

OTHERS = [name for name in IMPLEMENTATIONS if name != "in_process"]


@pytest.fixture(params=OTHERS)
def implementation(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name
