"""The work on one run: everything that its phases share."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from holdfast.agent.conversation import Conversation
from holdfast.agent.ledger import Ledger
from holdfast.agent.log import Log
from holdfast.agent.mail import Mail
from holdfast.agent.model_call import Pace
from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.limits import Usage
from holdfast.domain.thread import Thread
from holdfast.ports.log import Journal
from holdfast.ports.model import Model, TokenCounter
from holdfast.ports.runtime import Clock, Library, RemoteTools
from holdfast.tools.permissions.policy import permission_chain
from holdfast.tools.registry import Toolset
from holdfast.tools.tool import ToolMiddleware, passthrough


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How often a model that is not available is tried, and how long is waited in between. In seconds."""

    tries: int = 5
    first: float = 1.0
    longest: float = 60.0
    longest_asked: float = 86_400.0
    """The most that a provider can ask for: a run does not wait for years because of a number in a header."""

    def pause(self, failures: int, asked_for: float | None) -> float:
        """Return how long to wait after so many failures in a row; at least as long as the provider may ask for."""
        doublings = min(max(failures - 1, 0), 30)
        return max(min(self.first * (1 << doublings), self.longest), min(asked_for or 0.0, self.longest_asked))


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """How the loop works, where that is a matter of taste."""

    pace: Pace = Pace()
    patience: Patience = Patience()


class Work:
    """What is known and what is said while one worker works on one run."""

    def __init__(
        self,
        *,
        lease: Lease,
        thread: Thread,
        journal: Journal,
        log: Log,
        ledger: Ledger,
        conversation: Conversation,
        mail: Mail,
        values: Mapping[str, Json],
        interrupts: Mapping[str, Interrupt],
        tokens: TokenCounter,
        clock: Clock,
        habits: Habits,
        around: ToolMiddleware = passthrough,
    ) -> None:
        self.lease = lease
        self.run: Final = lease.run
        """The run as it was claimed."""
        self.thread = thread
        self.journal = journal
        self.log = log
        self.ledger = ledger
        self.conversation = conversation
        self.mail = mail
        self.values = dict(values)
        self.interrupts = dict(interrupts)
        self.tokens = tokens
        self.clock = clock
        self.habits = habits
        self.around = around
        """What is done around each call of a tool."""
        self.iterations = self.run.iterations
        self.usage = self.run.usage

    def equip(self, agent: Agent, model: Model, toolbox: Toolset, *, library: Library, remote: RemoteTools) -> None:
        """Say who works, with what. Until then a run can only fail."""
        self.model = model
        self.toolbox = toolbox
        self.library = library
        self.remote = remote
        self.change_agent(agent)

    def change_toolbox(self, toolbox: Toolset) -> None:
        """Go on with the tools that there are now."""
        self.toolbox = toolbox
        self.change_agent(self.agent)

    def change_agent(self, agent: Agent) -> None:
        """Go on as the agent is defined now."""
        self.agent = agent
        self.chain = permission_chain(agent, self.values)
        self.guarded = self.chain.concerns | self.toolbox.foreign
        """Tools whose calls are not made without a decision."""

    def set_values(self, values: Mapping[str, Json]) -> None:
        """Change values of the run."""
        self.values.update(values)
        self.log.draft.values.update(values)

    def count_call(self) -> None:
        """Count a model call."""
        self.iterations += 1
        self.log.draft.iterations += 1

    def estimate(self, input_tokens: int, output_tokens: int) -> Usage:
        """Return what a model call used of which nobody says so."""
        cost = self.model.cost(input_tokens=input_tokens, output_tokens=output_tokens)
        return Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost)

    def counted(self, usage: Usage, *, told: int, said: Callable[[], str]) -> Usage:
        """Return what a model call used: where its provider does not say, about that, at a cost that nobody knows."""
        if usage.total_tokens or usage.cost_usd is not None:
            return usage
        return Usage(input_tokens=told, output_tokens=self.tokens.count(said()), cost_usd=None)

    def charge(self, usage: Usage) -> None:
        """Count what a model call used."""
        self.usage = self.usage + usage
        self.log.draft.charge(usage)

    async def commit(self) -> None:
        """Commit what was said, and read what came in."""
        await self.log.commit()
        if self.log.unread:
            await self.read_mail()

    async def read_mail(self) -> None:
        """Read what came in."""
        self.mail.put(await self.journal.inbox(self.lease))
