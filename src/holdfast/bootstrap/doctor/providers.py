"""Checks of model providers: packages, keys, whether they answer, and the lane that each model takes."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import httpx2

from holdfast.bootstrap.doctor.finding import ANNOUNCE_SECONDS, Announce, Finding, failure, ok, warning
from holdfast.client.wire import connection_reason
from holdfast.concurrency import FirstErrorTaskGroup
from holdfast.domain.agent import SCRIPTED_PROVIDER, Agent
from holdfast.domain.errors import Invalid
from holdfast.domain.model_provider import Providers
from holdfast.models.packages import key_variable, missing_package
from holdfast.models.registry import ListedModels, ModelRegistry
from holdfast.workspace.settings import Settings

ANSWER_TIMEOUT_SECONDS: Final = 10.0
_SCRIPTED: Final = f"{SCRIPTED_PROVIDER}:"
_REFUSED_KEY: Final = frozenset({401, 403})
_NOT_FOUND: Final = 404


async def diagnose_providers(settings: Providers, agents: Sequence[Agent]) -> list[Finding]:
    """Report the usable providers, and the agents whose provider is unknown, or lacks its package or key."""
    providers = {provider.name: provider for provider in await ListedModels(lambda: settings).providers()}
    usable = ", ".join(provider.name for provider in providers.values() if provider.has_key)
    message = f"these have a key, or need none: {usable}" if usable else "none has a key: only scripted models run"
    findings = [ok("providers", message)]
    for agent, model in [(each, model) for each in agents for model in each.models]:
        name = model.partition(":")[0]
        provider = providers.get(name)
        if provider is not None and (missing := missing_package(name, settings.get(name))) is not None:
            message = f"agent `{agent.name}` uses `{model}`, and the package `{missing[0]}` is not installed"
            report = failure if provider.has_key else warning
            findings.append(report("providers", message, remedy=f"run `{missing[1]}`, then restart the server"))
        if name == SCRIPTED_PROVIDER or (provider is not None and provider.has_key):
            continue
        if provider is None:
            message = f"agent `{agent.name}` uses `{model}`, and `{name}` is unknown"
            remedy = "use a provider of the settings, or one that `GET /models` lists"
        else:
            message = f"agent `{agent.name}` uses `{model}`, and `{provider.key_variable}` is not set"
            remedy = f"set `{provider.key_variable}` in the environment of the server"
        findings.append(warning("providers", message, remedy=remedy))
    return findings


async def diagnose_models(settings: Settings, agents: Sequence[Agent], *, announce: Announce) -> list[Finding]:
    """Report which lane the models of the agents take, and whether their providers answer.

    Models that cannot be called yet are left out.
    """
    models = dict.fromkeys(model for agent in agents for model in agent.models if not model.startswith(_SCRIPTED))
    lanes: list[Finding] = []
    addresses: dict[str, str] = {}
    async with ModelRegistry(settings.providers, direct_lane_off=settings.direct_lane_off) as registry:
        for model in models:
            with suppress(Invalid):
                reason = await asyncio.to_thread(registry.reason_against_direct_lane, model)
                lane = "takes the direct lane" if reason is None else f"is called by its library: {reason}"
                lanes.append(ok("lanes", f"`{model}` {lane}"))
                if (address := registry.find(model).address) is not None:
                    addresses[model.partition(":")[0]] = address.rstrip("/")
    return [*await _diagnose_addresses(addresses, settings.providers, announce=announce), *lanes]


async def _diagnose_addresses(addresses: dict[str, str], settings: Providers, *, announce: Announce) -> list[Finding]:
    """Request the list of models of each provider, all at once; it costs nothing."""
    if not addresses:
        return []
    async with httpx2.AsyncClient(timeout=ANSWER_TIMEOUT_SECONDS) as http, FirstErrorTaskGroup() as tasks:
        probes = {
            tasks.create_task(_diagnose_address(http, name, address, settings)): address
            for name, address in addresses.items()
        }
        _, slow = await asyncio.wait(probes, timeout=ANNOUNCE_SECONDS)
        if slow:
            names = ", ".join(f"`{address}`" for probe, address in probes.items() if probe in slow)
            announce(f"waiting for {names}, at most {ANSWER_TIMEOUT_SECONDS:g} s …")
            await asyncio.wait(slow)
    return [probe.result() for probe in probes]


async def _diagnose_address(http: httpx2.AsyncClient, name: str, address: str, settings: Providers) -> Finding:
    declared = settings.get(name)
    variable = key_variable(name) if declared is None else declared.api_key_env
    key = None if variable is None else os.environ.get(variable)
    anthropic = name == "anthropic" if declared is None else declared.api == "anthropic"
    headers = {"x-api-key": key or "", "anthropic-version": "2023-06-01"} if anthropic else {}
    if key and not anthropic:
        headers["authorization"] = f"Bearer {key}"
    # The clients of Anthropic add the version of the API to the URL, those of OpenAI do not.
    path = "/v1/models" if anthropic and not address.endswith("/v1") else "/models"
    where = "its network" if declared is None else f"`base_url` of `{name}` in `settings.json`"
    try:
        async with (
            asyncio.timeout(ANSWER_TIMEOUT_SECONDS),
            http.stream("GET", f"{address}{path}", headers=headers) as answer,
        ):
            status = answer.status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as exc:
        message = f"`{name}` does not answer at `{address}`: {connection_reason(exc)}"
        return failure("providers", message, remedy=f"check that this machine reaches it, and {where}")
    if status in _REFUSED_KEY and variable is not None:
        message = f"`{name}` at `{address}` does not accept the key ({status})"
        return failure("providers", message, remedy=f"check the value of `{variable}`")
    if status == _NOT_FOUND and declared is not None:
        message = f"`{name}` answers at `{address}`, and has no `{path}` there ({status})"
        hint = "" if anthropic else ", which usually ends in `/v1`"
        return warning("providers", message, remedy=f"check {where}{hint}")
    return ok("providers", f"`{name}` answers at `{address}`")
