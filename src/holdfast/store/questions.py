"""How those above a run hear of what it asks people.

A run that begins to wait for people tells the one that spawned it. What closes a question, wherever it is asked, is
told to all above it: each that has shown it goes on.
"""

from collections.abc import Iterable, Sequence

from holdfast.domain.content import Json
from holdfast.domain.ids import InterruptId, RunId
from holdfast.domain.inbox import InboxKind
from holdfast.store.encoding import dump
from holdfast.store.inbox import put_item
from holdfast.store.transaction import Transaction


async def runs_above(tx: Transaction, run_key: int) -> list[int]:
    """Return those above a run, the nearest first."""
    return [row["run_key"] for row in await tx.all("above", run_key=run_key)]


async def tell_of_questions(tx: Transaction, parent_key: int, run: RunId, asks: Sequence[Json]) -> None:
    """Tell a parent, which is held, what people are asked by its child."""
    data = dump({"run_id": run, "interrupts": list(asks)})
    if await put_item(tx, parent_key, kind=InboxKind.QUESTION, data=data) is not None:
        tx.wake(queue=True)


async def tell_of_closing(
    tx: Transaction, above: Iterable[int], interrupt: InterruptId, *, named: tuple[int, RunId] | None = None
) -> None:
    """Tell those above, which are held, that a question below is closed; one of them goes on as the segment `named`."""
    for run_key in above:
        name = {"segment": named[1]} if named is not None and named[0] == run_key else {}
        data = dump({"interrupt_id": interrupt, **name})
        if await put_item(tx, run_key, kind=InboxKind.ANSWER, data=data) is not None:
            tx.wake(queue=True)
