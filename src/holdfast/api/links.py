"""Which operations go on with what another one made: the links of the OpenAPI document."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

MADE: Final[Mapping[str, tuple[str, str]]] = {
    "create_space": ("space_id", "id"),
    "create_thread": ("thread_id", "id"),
    "create_run": ("run_id", "id"),
    "retry_run": ("run_id", "id"),
    "create_plan_item": ("task_id", "task_id"),
    "create_artifact": ("artifact_id", "id"),
    "upload_file": ("file_id", "id"),
    "create_task": ("task_id", "taskId"),
}
"""What an operation makes: the parameter by which others know it, and the field of the answer that it is in."""


def link_all(paths: Mapping[str, Mapping[str, Any]]) -> None:
    """Add to each operation that makes something those that go on with it, from wherever they are."""
    operations = [(path, operation) for path, item in paths.items() for operation in item.values()]
    for path, operation in operations:
        if operation["operationId"] in MADE:
            links = dict(_links(path, operation, operations))
            made = next(status for status in ("201", "202") if status in operation["responses"])
            operation["responses"][made]["links"] = links


def _links(path: str, maker: Any, operations: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    parameter, field = MADE[maker["operationId"]]
    known = {name: f"$request.path.{name}" for name in _names(maker)}
    for other, operation in operations:
        names = _names(operation)
        if parameter not in names or not names <= {parameter, *known} or _is_native(path) != _is_native(other):
            continue
        made = {parameter: f"$response.body#/{field}"}
        values = {name: made.get(name) or known[name] for name in sorted(names)}
        yield operation["operationId"], {"operationId": operation["operationId"], "parameters": values}


def _names(operation: Any) -> set[str]:
    return {each["name"] for each in operation["parameters"] if each["in"] == "path"}


def _is_native(path: str) -> bool:
    return path.startswith("/api")
