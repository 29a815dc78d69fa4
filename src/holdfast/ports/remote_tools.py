"""Remote tools: those of the platform, of MCP servers and of clients, which the control plane lists and executes."""

from typing import Protocol

from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.tool import Question, Reply, ToolSpec


class RemoteTools(Protocol):
    """Tools that run elsewhere, in the name of a lease."""

    async def list(self, lease: Lease) -> list[ToolSpec]:
        """Return the tools that the run may use, by name. A local tool of the same name wins."""

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> Reply:
        """Run a tool. `key` is the same however often this call is made, so that the tool can know it again.

        A tool that fails says so in its reply. A name that is not listed raises `NotFound`; a lease that is lost,
        `LeaseLost`.
        """

    async def answer(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, question: Question, response: Json
    ) -> Reply:
        """Go on with the call of that key, which asked `question`; a null `response` says that nobody answered.

        It replies as `call` does, and may ask again. A tool that has never asked raises `NotFound`.
        """

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        """Let a tool be called that has changed, as a person has seen it: `digest` is that of the change.

        One that has changed again by then cannot be called. A name that can be no tool of the run raises `NotFound`.
        """
