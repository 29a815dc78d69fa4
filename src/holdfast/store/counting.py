"""What is counted of commits: how many, how long they took, and how many were written together."""

from collections.abc import Awaitable, Sequence
from time import perf_counter

from holdfast.domain.commit import Commit, Committed
from holdfast.domain.errors import HoldfastError, LeaseLost
from holdfast.metrics.meters import Meters
from holdfast.store.commits import COMMITS
from holdfast.store.prepared import Prepared
from holdfast.store.transaction import Batch, Transaction


class CountedCommits:
    """Commits as they are counted in one store."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._done = meters.commits.of("done")
        self.batch = Batch(name=COMMITS.name, apply=self._apply)
        """`COMMITS`, whose size is taken note of."""

    async def counted(self, commit: Commit, committing: Awaitable[Committed]) -> Committed:
        """Wait for a commit, and count what becomes of it."""
        begun = perf_counter()
        try:
            committed = await committing
        except HoldfastError as error:
            self._meters.commits.of("lease_lost" if isinstance(error, LeaseLost) else "refused").add()
            raise
        self._meters.commit_seconds.observe(perf_counter() - begun)
        self._done.add()
        if commit.move is not None and commit.move.to.terminal:
            self._meters.ended.of(commit.move.to).add()
        return committed

    async def _apply(self, tx: Transaction, commits: Sequence[Prepared]) -> Sequence[Committed | HoldfastError]:
        outcomes = await COMMITS.apply(tx, commits)
        self._meters.batch_size.observe(len(commits))
        return outcomes
