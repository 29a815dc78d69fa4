"""The journal in SQL."""

from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.errors import LeaseLost
from holdfast.domain.inbox import InboxItem
from holdfast.store.commits import COMMITS
from holdfast.store.inbox import to_item
from holdfast.store.prepared import prepare
from holdfast.store.transaction import Database, Transaction


class SqlJournal:
    """`Journal`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def commit(self, commit: Commit) -> Committed:
        """Add everything in `commit`, or nothing."""
        return await self._database.together(COMMITS, prepare(commit))

    async def inbox(self, lease: Lease) -> list[InboxItem]:
        """Return what is unread."""

        async def find(tx: Transaction) -> list[InboxItem]:
            head = await tx.one("head", run_key=lease.run_key)
            if head is None or head["lease_number"] != lease.number:
                raise LeaseLost(f"lease {lease.number} of run `{lease.run_id}` is lost", run_id=lease.run_id)
            return [to_item(row) for row in await tx.all("inbox_of_run", run_key=lease.run_key)]

        return await self._database.read(find)
