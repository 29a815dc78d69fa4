"""Leases of workers without a database in SQL: their tokens, and the result of the last numbered commit of each.

A worker sends a commit again when it did not receive the result. The result is stored in the transaction of the commit,
so that any process can return it, also after the commit has ended the lease.
"""

from collections.abc import Container, Mapping, Sequence
from datetime import timedelta
from hmac import compare_digest

import msgspec

from holdfast.domain.commit import CommitNumber, Committed, Lease, LeaseRef
from holdfast.domain.errors import Conflict, HoldfastError, LeaseLost
from holdfast.domain.ids import ApiKeyId, OwnerId, RunId
from holdfast.domain.worker import DEFAULT_CLAIM, ClaimFilter
from holdfast.ports.queue import SeenLease, TokenBinding
from holdfast.store.commit_rows import PreparedCommit
from holdfast.store.encoding import dump_json
from holdfast.store.leases import ClaimedRun, SqlLeases, to_lease
from holdfast.store.run_rows import to_run
from holdfast.store.transaction import Database, Row, SqlPort, Transaction, reads


class SqlWorkerLeases(SqlPort):
    """Implements `WorkerLeases`."""

    def __init__(self, database: Database, leases: SqlLeases) -> None:
        super().__init__(database)
        self._leases = leases

    async def claim(
        self,
        owner: OwnerId,
        *,
        lease: timedelta,
        limit: int = 1,
        where: ClaimFilter = DEFAULT_CLAIM,
        binding: TokenBinding,
    ) -> list[Lease]:
        """Lease queued runs to `owner`, and bind each lease to a token."""
        return await self._leases.claim_bound(owner, lease=lease, limit=limit, where=where, binding=binding)

    @reads
    async def find(self, tx: Transaction, ref: LeaseRef, *, token_hash: bytes, api_key: ApiKeyId | None) -> Lease:
        """Return a lease that is held."""
        await _issued(tx, ref, token_hash, api_key)
        run = await tx.one("run", space=ref.space_id, id=ref.run_id)
        head = None if run is None else await tx.one("held_head", run_key=run["run_key"])
        if run is None or head is None or head["lease_number"] != ref.number or head["lease_owner"] is None:
            raise _lost(ref)
        claimed = ClaimedRun(to_run(run), run["space_key"], run["thread_key"], run["parent_key"])
        return await to_lease(tx, OwnerId(head["lease_owner"]), head, claimed)

    @reads
    async def repeated(
        self, tx: Transaction, ref: LeaseRef, number: CommitNumber, *, token_hash: bytes, api_key: ApiKeyId | None
    ) -> Committed | None:
        """Return the result of a commit that was applied."""
        issued = await _issued(tx, ref, token_hash, api_key)
        if (issued["commit_number"], issued["commit_digest"]) != (number.number, number.digest):
            return None
        return msgspec.json.decode(issued["commit_result"], type=Committed)

    @reads
    async def held_by(self, tx: Transaction, owner: OwnerId, *, api_key: ApiKeyId | None) -> frozenset[SeenLease]:
        """Return the leases of a worker."""
        return frozenset(map(_seen, await tx.all("heads_of_worker", owner=owner, api_key=api_key or "")))

    async def take_back(self, owner: OwnerId, seen: Container[SeenLease], *, api_key: ApiKeyId | None) -> list[RunId]:
        """Take back the runs of leases that were not renewed."""
        key = api_key or ""
        held = await self._database.read(lambda tx: tx.all("heads_of_worker", owner=owner, api_key=key))
        return await self._leases.take_back(head for head in held if _seen(head) in seen)


def _seen(head: Row) -> SeenLease:
    return SeenLease(head["run_key"], head["lease_number"], head["lease_expires_at"])


async def _issued(tx: Transaction, ref: LeaseRef, token_hash: bytes, api_key: ApiKeyId | None) -> Row:
    row = await tx.one("worker_lease", space=ref.space_id, id=ref.run_id)
    known = row is not None and row["lease_number"] == ref.number and row["api_key"] == api_key
    if row is None or not known or not compare_digest(row["token_hash"], token_hash):
        raise _lost(ref)
    return row


def _lost(ref: LeaseRef) -> LeaseLost:
    return LeaseLost(f"lease {ref.number} of run `{ref.run_id}` is lost", run_id=ref.run_id, number=ref.number)


async def earlier_results(tx: Transaction, commits: Sequence[PreparedCommit]) -> dict[int, Committed | HoldfastError]:
    """Return the results of those numbered commits that were applied before or come too late, by run."""
    numbered = {commit.lease.run_key: commit for commit in commits if commit.commit.number is not None}
    if not numbered:
        return {}
    results: dict[int, Committed | HoldfastError] = {}
    for row in await tx.many("last_numbered_commits", [(key,) for key in numbered]):
        commit = numbered[row["run_key"]]
        number = commit.commit.number
        assert number is not None
        if row["lease_number"] != commit.lease.number or number.number > row["commit_number"]:
            continue
        if (number.number, number.digest) == (row["commit_number"], row["commit_digest"]):
            results[row["run_key"]] = msgspec.json.decode(row["commit_result"], type=Committed)
        else:
            results[row["run_key"]] = Conflict(
                f"commit {number.number} of lease {commit.lease.number} was applied with other content",
                run_id=commit.lease.run_id,
            )
    return results


async def keep_results(
    tx: Transaction, commits: Sequence[PreparedCommit], results: Mapping[int, Committed | HoldfastError]
) -> None:
    """Store the results of numbered commits."""
    rows = []
    for commit in commits:
        lease, number, result = commit.lease, commit.commit.number, results[commit.lease.run_key]
        if number is not None and isinstance(result, Committed):
            rows.append((number.number, number.digest, dump_json(result), lease.run_key, lease.number))
    await tx.many("keep_commit_results", rows)
