"""Modules are small, named for their contents, and follow the rules of their layer."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.architecture.project import PACKAGE, files, name, package_modules, scopes, tree

MAX_MODULE_LINES: Final = 500
VAGUE_NAMES: Final = {"utils", "util", "base", "helpers", "helper", "common", "misc"}
IMPURE_MODULES: Final = {
    "asyncio",
    "os",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "threading",
    "time",
    "uuid",
}

# Functions that may catch any exception without raising it again (`module::function`), and the reason.
BROAD_HANDLERS: Final[dict[str, str]] = {
    "engine/worker.py::Worker._execute": "a run that fails must not end the others",
    "agent/tool_step.py::ToolStep._catch_tool_errors": "a failing tool is a result for the model",
    "mcp/connection.py::_wrap_errors": "whatever a server does to the SDK is raised as one error of ours",
    "tools/function_host.py::load_functions": "a file of a user may raise anything",
    "tools/function_host.py::main": "an error of a function is a result for the model",
    "tools/function_tool.py::FunctionTool.run": "an error of a function is a result for the model",
    "models/embedders.py::OnnxEmbedder._encode": "onnxruntime does not export the classes of its errors",
    "rpc/server.py::ControlRpc.__call__": "around a request",
    "store/postgres/database.py::_BatchQueue._write": "an error must reach its caller and not end the batches",
    "store/sqlite/readers.py::Readers._work": "an error must reach its caller and not end the thread",
    "store/sqlite/writer.py::Writer._attempt": "an error must reach its caller, and the others go on",
    "store/sqlite/writer.py::Writer._write": "an error must reach its callers and not end the thread",
}

# Modules that use `re`, whose time may be exponential, and why theirs is not: all others use `LinearRegex`.
_ONE_PASS: Final = "each pattern is one pass: no repetition can be matched in two ways"
_OPERATOR: Final = "it reads only what the operator or this project wrote"
STANDARD_REGEX_USERS: Final[dict[str, str]] = {
    "api/auth/oidc.py": _ONE_PASS,
    "api/auth/tickets.py": _ONE_PASS,
    "api/chat/live_sessions.py": _ONE_PASS,
    "api/errors.py": _ONE_PASS,
    "api/json_body.py": _ONE_PASS,
    "api/openapi.py": _OPERATOR,
    "api/parameters.py": _ONE_PASS,
    "api/uvicorn_protocols.py": _ONE_PASS,
    "bootstrap/server_options.py": _OPERATOR,
    "cli/line_editor.py": _ONE_PASS,
    "cli/output.py": _ONE_PASS,
    "control/api_keys.py": _ONE_PASS,
    "control/settings.py": _OPERATOR,
    "domain/agent.py": _ONE_PASS,
    "domain/artifact.py": _ONE_PASS,
    "domain/cron.py": _ONE_PASS,
    "domain/distillation.py": _ONE_PASS,
    "domain/forgetting.py": _ONE_PASS,
    "domain/ids.py": _ONE_PASS,
    "domain/linear_regex.py": _ONE_PASS,
    "domain/mcp_server.py": _OPERATOR,
    "domain/memory.py": _ONE_PASS,
    "domain/model_provider.py": _OPERATOR,
    "domain/permission.py": _ONE_PASS,
    "domain/skill.py": _ONE_PASS,
    "domain/space.py": _ONE_PASS,
    "domain/tool.py": _ONE_PASS,
    "domain/untrusted.py": _ONE_PASS,
    "domain/thread.py": _ONE_PASS,
    "domain/validation.py": _ONE_PASS,
    "domain/web_settings.py": _OPERATOR,
    "domain/web_url.py": _ONE_PASS,
    "mcp/launcher.py": _ONE_PASS,
    "mcp/listed_tools.py": _ONE_PASS,
    "memory/analyser.py": _ONE_PASS,
    "skills/choice.py": _ONE_PASS,
    "skills/locale.py": _ONE_PASS,
    "memory/dates.py": _ONE_PASS,
    "memory/japanese.py": _ONE_PASS,
    "memory/outlines.py": _ONE_PASS,
    "memory/ranking.py": _ONE_PASS,
    "memory/rules.py": _ONE_PASS,
    "memory/static_vectors.py": _ONE_PASS,
    "models/provider_clients.py": _OPERATOR,
    "models/provider_errors.py": _ONE_PASS,
    "models/scripted.py": _OPERATOR,
    "models/text.py": _ONE_PASS,
    "store/sqlite/transaction.py": _OPERATOR,
    "store/statements.py": _OPERATOR,
    "tools/builtin/tool_search.py": _ONE_PASS,
    "tools/content.py": _ONE_PASS,
    "tools/files/walk.py": "only for its error: patterns of a `.gitignore` run in RE2",
    "tools/permissions/command_pattern.py": _ONE_PASS,
    "tools/permissions/patterns.py": "only to read the operator's rules: paths are matched by RE2",
    "tools/permissions/rule_checks.py": _OPERATOR,
    "tools/permissions/shell/grammar.py": _ONE_PASS,
    "tools/permissions/shell/run_options.py": _ONE_PASS,
    "tools/permissions/shell/scan.py": _ONE_PASS,
    "tools/permissions/shell/wrappers.py": _ONE_PASS,
    "tools/permissions/shell_policy.py": _ONE_PASS,
    "workspace/agent_file.py": _ONE_PASS,
    "workspace/json_files.py": _ONE_PASS,
    "workspace/settings_file.py": _OPERATOR,
    "workspace/space_agents.py": _ONE_PASS,
    "workspace/tools.py": _OPERATOR,
}


def test_no_module_is_longer_than_500_lines() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in files() if path.suffix == ".py"}
    assert lengths
    assert {module: length for module, length in lengths.items() if length > MAX_MODULE_LINES} == {}


def test_every_module_is_named_for_what_it_holds() -> None:
    assert [name(path) for path in files() if path.suffix == ".py" and path.stem in VAGUE_NAMES] == []
    assert [name(path) for path in package_modules() if path.parent.name in VAGUE_NAMES] == []


def test_the_domain_reads_no_clock_and_does_no_io() -> None:
    modules = package_modules("domain")
    assert modules
    assert [f"{name(path)}: {found}" for path in modules for found in _impurities(path)] == []


def test_every_promise_of_a_port_is_written_down() -> None:
    protocols = [
        (path, node)
        for path in package_modules("ports")
        for node in tree(path).body
        if isinstance(node, ast.ClassDef) and "Protocol" in {ast.unparse(base).split("[")[0] for base in node.bases}
    ]
    assert protocols
    undocumented = [
        f"{name(path)}: {protocol.name}.{method.name}"
        for path, protocol in protocols
        for method in protocol.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and not ast.get_docstring(method)
    ]
    assert undocumented == []


def test_no_two_public_classes_share_a_name() -> None:
    defined: dict[str, list[str]] = {}
    for path in package_modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined.setdefault(node.name, []).append(name(path))
    assert defined
    assert {found: places for found, places in defined.items() if len(places) > 1} == {}


def test_only_one_helper_starts_tasks_outside_a_task_group() -> None:
    assert [place for path in package_modules() for place in _loose_tasks(path)] == ["concurrency.py::start_background"]


def test_modules_that_use_the_standard_regular_expressions_are_listed_with_a_reason() -> None:
    users = [path.relative_to(PACKAGE).as_posix() for path in package_modules() if "re" in _imported_modules(path)]
    assert users == sorted(STANDARD_REGEX_USERS)


def test_broad_exception_handlers_are_listed_with_a_reason() -> None:
    assert sorted(place for path in package_modules() for place in _broad_handlers(path)) == sorted(BROAD_HANDLERS)


def _imported_modules(path: Path) -> set[str]:
    names = {alias.name for node in ast.walk(tree(path)) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom)}


def _impurities(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name.split(".")[0] in IMPURE_MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in IMPURE_MODULES:
                yield module
            case ast.Attribute(attr="now" | "utcnow" | "today"):
                yield ast.unparse(node)
            case _:
                pass


def _loose_tasks(path: Path) -> Iterator[str]:
    for scope, node in scopes(tree(path)):
        match node:
            case (
                ast.Attribute(attr="ensure_future")
                | ast.Attribute(value=ast.Name(id="asyncio"), attr="create_task")
                | ast.Attribute(value=ast.Call(func=ast.Attribute(attr="get_running_loop")), attr="create_task")
            ):
                yield f"{path.relative_to(PACKAGE).as_posix()}::{scope}"
            case _:
                pass


def _broad_handlers(path: Path) -> Iterator[str]:
    for scope, node in scopes(tree(path)):
        match node:
            case ast.ExceptHandler(type=None, body=[*_, last]) if not _raises_again(last):
                yield f"{path.relative_to(PACKAGE).as_posix()}::{scope}"
            case ast.ExceptHandler(type=ast.expr() as caught, body=[*_, last]) if _is_broad(caught):
                if not _raises_again(last):
                    yield f"{path.relative_to(PACKAGE).as_posix()}::{scope}"
            case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress")) if _is_broad(node):
                yield f"{path.relative_to(PACKAGE).as_posix()}::{scope}"
            case _:
                pass


def _raises_again(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Raise) and statement.exc is None


def _is_broad(caught: ast.AST) -> bool:
    names = {part.id for part in ast.walk(caught) if isinstance(part, ast.Name)}
    return not names.isdisjoint({"Exception", "BaseException"})
