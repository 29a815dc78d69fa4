"""Requests of the providers' clients, between pydantic-ai, which builds them, and the client, which sends them.

`hook_requests` replaces `create` of a client, which is where every request passes as it was built:

    pydantic-ai ──► create(**parameters) ──► an interceptor, if the caller set one: the direct lane
                                        └──► the client, with bulk fields as they are
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeAlias

from pydantic import RootModel
from pydantic_ai.models import Model as PydanticModel

Parameters: TypeAlias = dict[str, Any]
Interceptor: TypeAlias = Callable[[Parameters], Awaitable[Any]]

_BULK_PARAMETERS: Final = {
    "OpenAIChatModel": ("chat.completions", ("messages", "tools")),
    "OpenAIResponsesModel": ("responses", ("input", "tools")),
    "AnthropicModel": ("beta.messages", ("messages", "tools")),
    "GroqModel": ("chat.completions", ("messages", "tools")),
}
"""The resource of the client that each kind of model calls, and its parameters that grow with a conversation."""
_JSON_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_MAX_AS_IS_DEPTH: Final = 100
"""Deeper values, which serialisers may refuse, are left to the client."""

_interceptor: Final[ContextVar[tuple[Interceptor, bool] | None]] = ContextVar("interceptor", default=None)


def hook_requests(model: PydanticModel) -> None:
    """Let requests of a model be intercepted, and let its client send messages and tools without walking them.

    OpenAI's compares each with its own types, in about 100 µs, and Anthropic's copies each. The event loop stands
    still meanwhile.
    """
    client = getattr(model.provider, "client", None)
    for kind in type(model).__mro__:
        if client is not None and kind.__name__ in _BULK_PARAMETERS:
            path, names = _BULK_PARAMETERS[kind.__name__]
            resource = attrgetter(path)(client)
            if "create" not in vars(resource):  # the models of a provider share its client
                resource.create = partial(_create, resource.create, names)


@contextmanager
def intercept_requests(interceptor: Interceptor, *, once: bool = True) -> Iterator[None]:
    """Give the requests that this task builds to `interceptor`; only the first if `once`, and further ones are sent."""
    token = _interceptor.set((interceptor, once))
    try:
        yield
    finally:
        _interceptor.reset(token)


async def _create(create: Callable[..., Awaitable[Any]], names: Sequence[str], **parameters: Any) -> Any:
    intercepted = _interceptor.get()
    if intercepted is not None:
        interceptor, once = intercepted
        if once:
            _interceptor.set(None)
        return await interceptor(parameters)
    return await create(**as_is(parameters, names))


def as_is(parameters: Parameters, names: Sequence[str]) -> Parameters:
    """Return the parameters with the bulk in `extra_body`, which clients merge into the body unseen.

    Anthropic's client walks that too, but not a pydantic model, which it lets pydantic dump.
    """
    unseen = {
        name: _AsIs.model_construct(value)
        for name in names
        if type(value := parameters.get(name)) is list and _is_json(value)
    }
    if not unseen:
        return parameters
    extra_body = {**unseen, **(parameters.get("extra_body") or {})}
    return {**parameters, **{name: [] for name in unseen}, "extra_body": extra_body}


class _AsIs(RootModel[Any]):
    """A value that is plain JSON."""


def _is_json(values: list[Any]) -> bool:
    """Return whether `values` are plain JSON, and not too deep."""
    level: list[Any] = [values]
    for _ in range(_MAX_AS_IS_DEPTH):
        below: list[Any] = []
        for container in level:
            for value in container.values() if type(container) is dict else container:
                kind = type(value)
                if kind is dict or kind is list:
                    below.append(value)
                elif kind not in _JSON_SCALARS:
                    return False
        if not below:
            return True
        level = below
    return False
