"""`@tool`: a Python function as a tool. Its type hints give the parameters, and its docstring describes them.

    @tool(read_only=True)
    async def price(symbol: str) -> float:
        \"\"\"Return the price of a stock.\"\"\"

An `Args:` section of the docstring describes the parameters. A parameter annotated with `ToolContext` receives the call
and is not shown to the model. A decorated function can still be called like any function.
"""

import asyncio
import contextvars
import inspect
import logging
import typing
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid
from holdfast.domain.tool import DEFAULT_TOOL_TIMEOUT_SECONDS, ToolClass, ToolSpec, check_tool_spec
from holdfast.tools.arguments import integral_floats_to_int
from holdfast.tools.python_types import from_json, json_schema, to_json
from holdfast.tools.tool import Tool, ToolContext, ToolResult

MAX_THREADS: Final = 32
_SECTIONS: Final = frozenset({"args", "arguments", "parameters", "returns", "return", "raises", "yields", "example"})
_ARGUMENT_SECTIONS: Final = frozenset({"args", "arguments", "parameters"})
_log: Final = logging.getLogger("holdfast.tools")
# A pool of its own: functions may block for long, and must not keep file tools waiting.
_pool: Final = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="holdfast-functions")

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class FunctionTool(Generic[P, R]):
    """A function that is a `Tool`. A sync function runs in a thread."""

    def __init__(self, function: Callable[P, R], spec: ToolSpec, parameters: "_Parameters") -> None:
        self.function = function
        self.spec = spec
        self._parameters = parameters
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"

    @property
    def takes_context(self) -> bool:
        """Whether a parameter receives the call."""
        return self._parameters.context is not None

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Call the function with the arguments of the model; an exception is a failed result for the model."""
        values = self._parameters.convert(arguments)
        if self._parameters.context is not None:
            values[self._parameters.context] = call
        try:
            result = await self.invoke(values)
            return result if isinstance(result, ToolResult) else ToolResult(content=to_json(result))
        except HoldfastError:
            raise
        except Exception as exc:  # noqa: BLE001  # any error of a user's function is for the model
            _log.warning("tool `%s` failed", self.spec.name, exc_info=exc)
            return ToolResult(content=f"`{self.spec.name}` failed: {type(exc).__name__}: {exc}", failed=True)

    async def invoke(self, values: Mapping[str, Any]) -> object:
        """Call the function with converted values, and return what it returns."""
        function: Callable[..., Any] = self.function
        if inspect.iscoroutinefunction(function):
            return await function(**values)
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(_pool, lambda: context.run(lambda: function(**values)))
        return await result if inspect.isawaitable(result) else result

    def convert(self, arguments: dict[str, Json]) -> dict[str, Any]:
        """Return the arguments of a call as the types of the function's parameters."""
        return self._parameters.convert(arguments)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    effectful: bool = False,
    untrusted: bool = False,
    timeout: float = DEFAULT_TOOL_TIMEOUT_SECONDS,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    effectful: bool = False,
    untrusted: bool = False,
    timeout: float = DEFAULT_TOOL_TIMEOUT_SECONDS,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a function a tool.

    What an interrupted call means after a crash: a `read_only` or `idempotent` function is called again; of any other,
    which is `effectful`, the outcome is unknown. Results of an `untrusted` tool are text of others.
    """
    if effectful and read_only:
        raise Invalid("a tool is `effectful` or `read_only`: choose one", field="effectful")

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        if not inspect.isroutine(function):
            raise Invalid(f"`@tool` makes a function a tool, not `{function!r}`", field="function")
        documented, descriptions = _read_docstring(inspect.getdoc(function) or "")
        named = name or function.__name__
        text = description or documented
        if not text:
            raise Invalid(f"`{named}` has no docstring: it tells the model what the tool does", field="description")
        parameters = _Parameters(function, descriptions)
        spec = ToolSpec(
            name=named,
            description=text,
            parameters=parameters.schema,
            kind=ToolClass.IDEMPOTENT if read_only or idempotent else ToolClass.EFFECTFUL,
            read_only=read_only,
            timeout=timeout,
            untrusted=untrusted,
        )
        return FunctionTool(function, check_tool_spec(spec), parameters)

    return decorate if function is None else decorate(function)


def check_tool(tool: Tool) -> Tool:
    """Return a tool; raise `Invalid` for anything else, such as a function that is not decorated."""
    if isinstance(getattr(tool, "spec", None), ToolSpec):
        return tool
    named = getattr(tool, "__name__", None) or repr(tool)
    raise Invalid(f"`{named}` in `tools` is not a tool or the name of one: decorate it with `@tool`", field="tools")


class _Parameters:
    """The parameters of a function: their JSON Schema, and arguments as their types."""

    def __init__(self, function: Callable[..., Any], descriptions: Mapping[str, str]) -> None:
        try:
            hints = typing.get_type_hints(function, include_extras=True)
        except NameError as exc:
            raise Invalid(f"a type hint of `{function.__name__}` is not defined: {exc}", field="parameters") from exc
        self._kinds: dict[str, Any] = {}
        self.context: str | None = None
        properties: dict[str, Json] = {}
        required: list[str] = []
        for name, parameter in inspect.signature(function).parameters.items():
            place = f"parameter `{name}` of `{function.__name__}`"
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise Invalid(f"{place} cannot be passed by name: declare each parameter by its name", field=name)
            if name not in hints:
                raise Invalid(f"{place} has no type hint: add one, such as `{name}: str`", field=name)
            if hints[name] is ToolContext:
                self.context = name
                continue
            self._kinds[name] = hints[name]
            properties[name] = _property(hints[name], descriptions.get(name), place)
            if parameter.default is parameter.empty:
                required.append(name)
            elif parameter.default is not None:
                properties[name]["default"] = to_json(parameter.default)
        self.schema: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            self.schema["required"] = required

    def convert(self, arguments: dict[str, Json]) -> dict[str, Any]:
        """Return arguments, which match the schema, as the types of the parameters."""
        values = {}
        for name, value in arguments.items():
            try:
                values[name] = from_json(value, self._kinds[name])
            except Invalid:
                try:
                    values[name] = from_json(integral_floats_to_int(value), self._kinds[name])
                except Invalid as exc:
                    raise Invalid(f"`{name}`: {exc.message}", field=name) from exc
        return values


def _property(kind: Any, described: str | None, place: str) -> dict[str, Json]:
    try:
        schema = json_schema(kind)
    except Invalid as exc:
        raise Invalid(f"{place}: {exc.message}", field="parameters") from exc
    schema.pop("title", None)
    texts = [note for note in getattr(kind, "__metadata__", ()) if isinstance(note, str)]
    description = described or (texts[0] if texts else None)
    return schema if description is None else {**schema, "description": description}


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the description and those of the parameters, from `Args:` or `:param name:`."""
    description: list[str] = []
    parameters: dict[str, list[str]] = {}
    section, current = "", ""
    for line in text.splitlines():
        words = line.strip()
        title = words.removesuffix(":").lower()
        if words.startswith((":param ", ":parameter ")):
            current, _, rest = words.partition(" ")[2].partition(":")
            current, section = current.split()[-1] if current.split() else "", "args"
            parameters[current] = [rest.strip()]
        elif words.startswith(":"):
            section, current = "other", ""
        elif words.endswith(":") and title in _SECTIONS and not line.startswith(" "):
            section, current = ("args" if title in _ARGUMENT_SECTIONS else "other"), ""
        elif not section:
            description.append(words)
        elif section == "args" and ":" in words and not line.startswith(" " * 8):
            name, _, rest = words.partition(":")
            current = name.partition("(")[0].strip().lstrip("*")
            parameters[current] = [rest.strip()]
        elif current and words:
            parameters[current].append(words)
    paragraphs = "\n".join(description).strip()
    return paragraphs, {name: " ".join(parts).strip() for name, parts in parameters.items() if " ".join(parts).strip()}
