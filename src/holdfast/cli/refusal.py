"""What a server refused, as it said it."""

import msgspec


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says it refuses, and why."""

    code: str
    message: str


class ServerRefused(Exception):
    """The server will not do it, however often it is asked."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem
