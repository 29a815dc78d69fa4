"""The ids of one kind of thing: which name something open, and which are used up."""

from itertools import count
from typing import Generic, TypeAlias, TypeVar, cast

from msgspec import UnsetType

from holdfast.domain.ids import RunId

Owner: TypeAlias = RunId | UnsetType
"""The sub-agent that something belongs to; unset when it is the agent's own."""

Id = TypeVar("Id", bound=str)


class Names(Generic[Id]):
    """Ids as producers say them, and as they are logged: one that was used before is logged as `<id>-2`.

    Which logged id a said one stands for is seen from the logged ids alone, so that it survives a restart. So
    a producer's own `a-2`, said after the end of its `a`, is taken for `a` come again.
    """

    __slots__ = ("_logged", "_used", "open")

    def __init__(self, *, used: set[Id] | None = None) -> None:
        self.open: dict[Id, Owner] = {}
        """Logged ids, in the order of their start."""
        self._used: set[Id] = set() if used is None else used
        self._logged: dict[Id, Id] = {}

    def logged(self, said: Id) -> Id:
        """Return the newest logged id of what producers call `said`."""
        return self._logged.get(said, said)

    def is_open(self, said: Id) -> bool:
        """Tell whether what producers call `said` is open."""
        return self.logged(said) in self.open

    def unused(self, said: Id) -> Id:
        """Return the id under which to log a new thing that producers call `said`."""
        if said not in self._used:
            return said
        newest = self.logged(said)
        numbers = count(2 if newest == said else int(newest[len(said) + 1 :]) + 1)
        candidates = (cast(Id, f"{said}-{number}") for number in numbers)
        return next(name for name in candidates if name not in self._used)

    def latest(self, owner: Owner) -> Id | None:
        """Return the open one of `owner` that started last."""
        return next((name for name, each in reversed(self.open.items()) if each == owner), None)

    def start(self, name: Id, owner: Owner) -> None:
        """Take note that `name` was logged as started."""
        said = cast(Id, name.rpartition("-")[0])
        if name == self.unused(said) and not self.is_open(said):
            self._logged[said] = name
        self._used.add(name)
        self.open[name] = owner

    def end(self, name: Id) -> None:
        """Take note that `name` was logged as ended."""
        self.open.pop(name, None)

    def use(self, name: Id) -> None:
        """Take note that `name` now names something that never was open."""
        self._used.add(name)
