"""Providers of models: which have a key, and whether the agents' own do. Keys themselves are never told."""

from collections.abc import Iterator, Mapping, Sequence

from holdfast.bootstrap.doctor.finding import Finding, warning, well
from holdfast.domain.agent import SCRIPTED_PROVIDER, Agent
from holdfast.domain.model_provider import KnownProvider, Providers
from holdfast.models.registry import ListedModels


async def look_at_providers(settings: Providers, agents: Sequence[Agent]) -> list[Finding]:
    """Return which providers can be used, and which agents have none."""
    providers = {provider.name: provider for provider in await ListedModels(lambda: settings).providers()}
    ready = [provider.name for provider in providers.values() if provider.has_key]
    told = f"these have a key, or need none: {', '.join(ready)}" if ready else "none has a key: only scripts run"
    return [well("providers", told), *_without_key(agents, providers)]


def _without_key(agents: Sequence[Agent], providers: Mapping[str, KnownProvider]) -> Iterator[Finding]:
    for agent in agents:
        for model in agent.models:
            name = model.partition(":")[0]
            provider = providers.get(name)
            if name == SCRIPTED_PROVIDER or (provider is not None and provider.has_key):
                continue
            if provider is None:
                remedy = "name a provider of the settings, or one that `GET /models` lists"
                yield warning(
                    "providers", f"agent `{agent.name}` uses `{model}`, and `{name}` is not known", remedy=remedy
                )
            else:
                message = f"agent `{agent.name}` uses `{model}`, and `{provider.key_variable}` is not set"
                yield warning("providers", message, remedy=f"set `{provider.key_variable}` where the server starts")
