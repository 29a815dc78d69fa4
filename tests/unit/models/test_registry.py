import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.domain.errors import Invalid, ScriptError
from holdfast.domain.model_provider import ProviderSettings
from holdfast.models.registry import ModelRegistry
from tests.unit.models.model_calls import deltas, scripted, text

LOCAL = ProviderSettings(api="openai", base_url="http://127.0.0.1:9/v1")


@pytest.fixture
async def registry() -> AsyncIterator[ModelRegistry]:
    async with ModelRegistry({"local": LOCAL}) as models:
        yield models


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(variable)


async def test_a_script_path_is_relative_to_the_folder_of_its_agent(tmp_path: Path, registry: ModelRegistry) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    scripted(tmp_path / "a", {"say": "one"})
    scripted(tmp_path / "b", {"say": "two"})
    found = [registry.find("scripted:script.json", folder=str(tmp_path / name)) for name in ("a", "b")]
    assert [text(await deltas(model)) for model in found] == ["one", "two"]
    assert registry.find("scripted:../a/script.json", folder=str(tmp_path / "b")).name == "scripted:../a/script.json"


def test_the_same_name_is_the_same_model(tmp_path: Path, registry: ModelRegistry) -> None:
    scripted(tmp_path, {})
    for name in ("scripted:script.json", "local:m"):
        assert registry.find(name, folder=str(tmp_path)) is registry.find(name, folder=str(tmp_path))


def test_a_missing_script_is_an_error_that_names_it(tmp_path: Path, registry: ModelRegistry) -> None:
    with pytest.raises(ScriptError, match=r"nowhere\.json"):
        registry.find("scripted:nowhere.json", folder=str(tmp_path))


@pytest.mark.parametrize("name", ["", "gpt-5", ":", "openai:", ":gpt-5", "scripted:"])
def test_a_name_without_a_provider_or_a_model_is_refused(name: str, registry: ModelRegistry) -> None:
    with pytest.raises(Invalid, match="write `provider:model`"):
        registry.find(name)


def test_an_unknown_provider_is_refused_with_the_known_ones(registry: ModelRegistry) -> None:
    with pytest.raises(Invalid, match="there is no provider `nobody`: there are `scripted`, `local`, `anthropic`"):
        registry.find("nobody:gpt-5")


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("openai-chat:gpt-4o", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-5", "ANTHROPIC_API_KEY"),
        ("deepseek:deepseek-chat", "DEEPSEEK_API_KEY"),
        ("ollama:llama3", "OLLAMA_BASE_URL"),
        ("vllm:qwen3", "VLLM_BASE_URL"),
    ],
)
def test_a_missing_key_is_an_error_that_names_the_variable(name: str, variable: str, registry: ModelRegistry) -> None:
    with pytest.raises(Invalid, match=f"`{name}` needs the environment variable `{variable}`"):
        registry.find(name)


def test_a_missing_key_of_a_custom_provider_names_its_variable() -> None:
    settings = ProviderSettings(api="openai", base_url="http://127.0.0.1:9/v1", api_key_env="HOUSE_KEY")
    with pytest.raises(Invalid, match="`house:m` needs its key in the environment variable `HOUSE_KEY`"):
        ModelRegistry({"house": settings}).find("house:m")


@pytest.mark.parametrize(
    ("model", "package", "command"),
    [
        ("openai:gpt-5", "openai", "pip install 'holdfast-agents[openai]'"),
        ("ollama:qwen3", "openai", "pip install 'holdfast-agents[openai]'"),
        ("local:qwen3", "openai", "pip install 'holdfast-agents[openai]'"),
        ("house:claude", "anthropic", "pip install 'holdfast-agents[anthropic]'"),
        ("mistral:mistral-large-latest", "mistralai", "pip install 'pydantic-ai-slim[mistral]'"),
    ],
)
async def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, model: str, package: str, command: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    house = ProviderSettings(api="anthropic", base_url="http://127.0.0.1:9")
    async with ModelRegistry({"local": LOCAL, "house": house}) as models:
        with pytest.raises(Invalid) as error:
            models.find(model)
    remedy = f"run `{command}`, then restart the server"
    assert error.value.message == f"`{model}` needs the package `{package}`, which is not installed: {remedy}"


def test_the_package_of_every_provider_is_known_that_the_library_says_it_needs() -> None:
    # In a process of its own, in which no package of a provider can be imported.
    script = """
import re, sys
for module in ("openai", "anthropic", "boto3"):
    sys.modules[module] = None
from pydantic_ai.providers import infer_provider_class
from holdfast.models.packages import missing_package
from holdfast.models.provider_clients import known_providers
for name in known_providers():
    try:
        infer_provider_class(name)
    except ImportError as exc:
        if missing_package(name, None) is None:
            print(name, end=" ")
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["bedrock-mantle", "typesafe"]  # rare: their error names the package at the call


def test_a_custom_provider_cannot_be_named_scripted() -> None:
    with pytest.raises(Invalid, match="cannot be named `scripted`"):
        ModelRegistry({"scripted": LOCAL})


async def test_context_window_and_price_come_from_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    async with ModelRegistry() as registry:
        known = {
            name: (registry.find(name).context_window, registry.find(name).price_known)
            for name in ("openai-chat:gpt-4o", "anthropic:claude-sonnet-5", "openai-chat:not-out-yet")
        }
    assert known == {
        "openai-chat:gpt-4o": (128_000, True),
        "anthropic:claude-sonnet-5": (1_000_000, True),
        "openai-chat:not-out-yet": (128_000, False),
    }


@pytest.mark.parametrize("api", ["openai", "openai-responses", "anthropic"])
async def test_the_settings_of_a_provider_apply_to_its_models(api: str) -> None:
    settings = ProviderSettings(
        api=api,  # type: ignore[arg-type]
        base_url="http://127.0.0.1:9",
        context_window=32_000,
        input_usd_per_million=1,
        output_usd_per_million=2,
    )
    async with ModelRegistry({"house": settings}) as registry:
        model = registry.find("house:gpt-4o")
        assert (model.name, model.context_window, model.price_known) == ("house:gpt-4o", 32_000, True)


def test_a_custom_provider_has_no_listed_price(registry: ModelRegistry) -> None:
    assert not registry.find("local:gpt-4o").price_known


async def test_a_custom_provider_takes_precedence_over_a_built_in_one() -> None:
    async with ModelRegistry({"openai": ProviderSettings(api="openai", base_url="http://127.0.0.1:9/v1")}) as registry:
        assert not registry.find("openai:gpt-4o").price_known


async def test_clients_do_not_retry(registry: ModelRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    for name in ("local:m", "anthropic:claude-sonnet-5"):
        assert registry.find(name)._model.client.max_retries == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("provider", ["local", "openai-chat"])
async def test_the_models_of_a_provider_share_its_connections(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    async with ModelRegistry({"local": LOCAL}) as registry:
        models = [registry.find(f"{provider}:{number}") for number in range(3)]
        assert len(set(models)) == 3
        client, *others = [model._model.client for model in models]  # type: ignore[attr-defined]
        assert all(other is client for other in others)
        assert not client.is_closed()
    assert client.is_closed()


def test_no_provider_library_is_imported_before_its_first_use(tmp_path: Path) -> None:
    scripted(tmp_path, {})
    program = (
        "import sys, holdfast, holdfast.models.registry as registry; "
        f"registry.ModelRegistry().find('scripted:script.json', folder={str(tmp_path)!r}); "
        "print([name for name in ('pydantic_ai', 'pydantic', 'openai', 'genai_prices') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_provider_library_is_imported_in_a_thread(tmp_path: Path) -> None:
    program = """
import asyncio, gc, sys, threading
from holdfast.domain.model_provider import ProviderSettings
from holdfast.models.registry import ModelRegistry

def on_import(event, arguments):
    if event == "import" and arguments[0] in ("pydantic_ai", "openai"):
        print(arguments[0], threading.current_thread() is threading.main_thread())

async def main():
    local = ProviderSettings(api="openai", base_url="http://127.0.0.1:9/v1")
    async with ModelRegistry({"local": local}) as registry:
        sys.addaudithook(on_import)
        await registry.prepare(["scripted:script.json", "nonsense", "local:m"])
        assert registry.find("local:m") is registry.find("local:m")
        assert gc.get_freeze_count() > len(gc.get_objects())  # a collection would block the event loop

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert set(done.stdout.splitlines()) == {"pydantic_ai False", "openai False"}


async def test_an_error_of_prepare_is_raised_by_find(registry: ModelRegistry) -> None:
    await registry.prepare(["nobody:gpt-5"])
    with pytest.raises(Invalid, match="there is no provider `nobody`"):
        registry.find("nobody:gpt-5")
