"""History in trees: however deep and wide a thread is, each run sees exactly its chain."""

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.domain.commit import Commit, Lease
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import MessageId, ThreadId
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Run
from holdfast.store.store import Store
from tests.builders import assistant, new_thread, user
from tests.conformance.conftest import SPACE
from tests.conformance.conversations import base_on, claim_run, complete, create_run, ended_run, history_texts, texts

DEEP = 300
MAX_RUNS = 60
ACTIONS = ("make", "make", "make", "begin", "speak", "finish", "cancel", "let go")


async def test_a_chain_of_300_runs_is_read_right_at_every_depth(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    chain = [await _deeper(store, thread, depth) for depth in range(DEEP)]
    tip = chain[-1]
    for depth, run in enumerate(chain):
        words = [str(number) for number in range(depth + 1)]
        assert await history_texts(store, run, limit=7) == words[-7:]
        assert await history_texts(store, tip, limit=3, before=depth) == words[max(depth - 3, 0) : depth]
        found = await store.messages.get(SPACE, tip.id, MessageId(f"m{depth}"))
        assert (found.content, found.run_id, found.sequence) == (str(depth), run.id, depth)
    assert await history_texts(store, tip) == [str(number) for number in range(DEEP)]


async def test_a_fork_deep_in_a_long_chain_sees_its_ancestors_and_nothing_else(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    chain = [await _deeper(store, thread, depth) for depth in range(70)]
    for depth in (0, 1, 2, 3, 14, 15, 16, 31, 62, 63, 64, 68):
        fork = await ended_run(store, thread, "fork", base=base_on(chain[depth]))
        await ended_run(store, thread, base=base_on(fork))
        over = await ended_run(store, thread, "over", base=base_on(fork))
        assert await history_texts(store, over) == [*(str(number) for number in range(depth + 1)), "fork", "over"]
        for seen in {0, depth // 2, depth}:
            found = await store.messages.get(SPACE, over.id, MessageId(f"m{seen}"))
            assert found.run_id == chain[seen].id
        with pytest.raises(NotFound):
            await store.messages.get(SPACE, over.id, MessageId(f"m{depth + 1}"))


async def _deeper(store: Store, thread: ThreadId, depth: int) -> Run:
    new = NewRun(thread=thread, messages=[user(str(depth), id=f"m{depth}")])
    run = (await store.runs.create(SPACE, new)).run
    await store.runs.end(SPACE, run.id)
    return run


@dataclass(eq=False)
class Node:
    """An expected run."""

    run: Run
    base: "Node | None"
    cut: int | None
    """Number of its base's messages that it sees; null means all."""
    said: list[str]
    begun: bool = False
    ended: bool = False
    lease: Lease | None = None

    @property
    def over(self) -> bool:
        return self.ended and self.lease is None and self.may_begin

    @property
    def may_begin(self) -> bool:
        return self.base is None or self.base.over

    def chain(self, cut: int | None = None) -> list[str]:
        above = [] if self.base is None else self.base.chain(self.cut)
        return above + (self.said if self.begun else [])[:cut]

    def history(self) -> list[str]:
        if self.base is None or self.begun:
            return self.chain()
        above = self.base.chain(self.cut) if self.base.begun else self.base.history()
        return above + self.said


@dataclass(eq=False)
class Tree:
    """A thread that grows at random, and the expected history of each run."""

    store: Store
    thread: ThreadId
    nodes: list[Node] = field(default_factory=list)
    words: int = 0

    async def act(self, action: str, pick: int, count: int) -> None:
        live = [node for node in self.nodes if not node.ended]
        match action:
            case "make" if len(self.nodes) < MAX_RUNS:
                await self._make(pick, count)
            case "begin" if free := [node for node in live if node.begun and node.lease is None]:
                node = free[pick % len(free)]
                node.lease = await claim_run(self.store, node.run)
            case "speak" if held := [node for node in live if node.lease]:
                await self._speak(held[pick % len(held)], count)
            case "finish" if held := [node for node in live if node.lease]:
                await self._finish(held[pick % len(held)], count)
            case "cancel" if live:
                node = live[pick % len(live)]
                await self.store.runs.end(SPACE, node.run.id)
                node.ended = True
            case "let go" if left := [node for node in self.nodes if node.ended and node.lease]:
                await self._let_go(left[pick % len(left)])
        for node in self.nodes:
            node.begun = node.begun or node.may_begin

    async def _make(self, pick: int, count: int) -> None:
        choices = [(None, None), *((node, cut) for node in self.nodes for cut in self._cuts(node))]
        base, cut = choices[pick % len(choices)]
        named = None if base is None else base_on(base.run, await self._sequence(base, cut))
        said = self._words(count)
        self.nodes.append(Node(await create_run(self.store, self.thread, *said, base=named), base, cut, said))

    def _cuts(self, node: Node) -> list[int | None]:
        return [None, *range(1, len(node.said) + 1)] if node.begun else [None]

    async def _sequence(self, base: Node, cut: int | None) -> int | None:
        return None if cut is None else (await self.store.messages.of_run(SPACE, base.run.id))[cut - 1].sequence

    async def _speak(self, node: Node, count: int) -> None:
        assert node.lease is not None
        said = self._words(count)
        messages = [assistant(text) for text in said]
        await self.store.journal.commit(Commit(lease=node.lease, messages=messages))
        node.said += said

    async def _finish(self, node: Node, count: int) -> None:
        assert node.lease is not None
        said = self._words(count)
        await complete(self.store, node.lease, *said)
        node.said += said
        node.ended, node.lease = True, None

    async def _let_go(self, node: Node) -> None:
        assert node.lease is not None
        await self.store.leases.release(node.lease)
        node.lease = None

    def _words(self, count: int) -> list[str]:
        self.words += count
        return [f"w{number}" for number in range(self.words - count, self.words)]

    async def check(self, page: int) -> None:
        entered: set[int] = set()
        for node in self.nodes:
            history = await self.store.messages.history(SPACE, node.run.id, limit=1000)
            assert texts(history) == node.history()
            numbers = [message.sequence for message in history if message.sequence is not None]
            assert numbers == sorted(set(numbers))
            assert len(numbers) == len(node.chain())
            assert await self._paged(node, page) == node.history()
            entered.update(numbers)
        assert entered == set(range((await self.store.threads.get(SPACE, self.thread)).next_sequence))

    async def _paged(self, node: Node, limit: int) -> list[str]:
        page = await self.store.messages.history(SPACE, node.run.id, limit=limit)
        heard = texts(page)
        while page:
            page = await self.store.messages.history(SPACE, node.run.id, limit=limit, before=page[0].cursor)
            heard = texts(page) + heard
        return heard

    async def clear(self) -> None:
        for node in self.nodes:
            if not node.ended:
                await self.act("cancel", 0, 0)
        for node in self.nodes:
            if node.lease is not None:
                await self._let_go(node)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 10_000), st.integers(0, 3)), min_size=30, max_size=120),
    st.integers(1, 6),
)
async def test_in_any_tree_of_runs_each_run_sees_exactly_its_chain(
    store: Store, actions: list[tuple[str, int, int]], page: int
) -> None:
    tree = Tree(store, await new_thread(store, SPACE))
    try:
        for action, pick, count in actions:
            await tree.act(action, pick, count)
        await tree.check(page)
    finally:
        await tree.clear()
