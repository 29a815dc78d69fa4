"""`FolderSnapshots` over every implementation keeps the promises of the store's own, for the run's own folder only."""

import pytest

from holdfast.domain.errors import Conflict, Invalid
from holdfast.domain.folder_snapshot import FolderChanges
from holdfast.domain.working_folder import space_folder
from holdfast.store.store import Store
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.runtime.implementations import IMPLEMENTATIONS
from tests.conformance.test_folders import *  # noqa: F403
from tests.conformance.test_folders import HERE, folder_of, leased, save


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def test_a_folder_that_is_not_the_runs_own_is_refused(store: Store) -> None:
    other, lease = await leased(store), await leased(store)
    await save(store, other, {"a": b"1"})
    for name in (
        folder_of(other),
        f"{space_folder(OTHER)}/threads/{lease.thread_id}",
        f"{space_folder(SPACE)}/folders/files",
        "files",
        "/etc",
        "",
        f"{folder_of(lease)}/..",
    ):
        with pytest.raises(Conflict):
            await store.folders.open(lease, name, place=HERE, version=0)
        with pytest.raises(Conflict):
            await store.folders.save(lease, name, FolderChanges(base=0, removed=["a"]), place=HERE)
        with pytest.raises(Conflict):
            await store.folders.download(lease, name, [])


async def test_a_name_of_a_place_and_a_digest_are_checked(store: Store) -> None:
    lease = await leased(store)
    for place in ("", "x" * 200, "a b", "a\0"):
        with pytest.raises(Invalid):
            await store.folders.open(lease, folder_of(lease), place=place, version=0)
        with pytest.raises(Invalid):
            await store.folders.save(lease, folder_of(lease), FolderChanges(base=0), place=place)
    for digest in ("", "x" * 64, "../../etc"):
        with pytest.raises(Invalid):
            await store.folders.stage(lease, [digest])
