"""The standard middleware around every tool: validation, timeout, error results, redaction, output limit, provenance.

Output over the limit is cut to its head and tail; the whole text is kept as an artifact, which the note in the middle
names.
"""

import asyncio

from msgspec.structs import replace

from holdfast.domain.artifact import MAX_ARTIFACT_CHARS, ArtifactType, NewArtifact
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid, LeaseLost, OutcomeUnknown, Unavailable
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ArtifactId
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.domain.untrusted import taint_source_name
from holdfast.tools.arguments import check_arguments
from holdfast.tools.content import artifact_created_event, as_text, sanitize
from holdfast.tools.redaction import Redaction, with_redaction
from holdfast.tools.tool import CallNext, Tool, ToolContext, ToolResult, wrap_tool


def with_standard_middleware(tool: Tool, *, redaction: Redaction | None = None) -> Tool:
    """Return `tool` wrapped in the standard middleware; secrets are redacted before the output is cut."""
    for middleware in (validate_arguments, limit_time, catch_errors):
        tool = wrap_tool(tool, middleware)
    if redaction is not None:
        tool = with_redaction(tool, redaction)
    tool = wrap_tool(tool, limit_output)
    return wrap_tool(tool, mark_untrusted) if tool.spec.untrusted else tool


async def validate_arguments(
    spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext
) -> ToolResult:
    """Fail a call whose arguments do not match the schema, without running the tool."""
    try:
        await check_arguments(spec, arguments)
    except Invalid as error:
        return _error_result(error)
    return await call_next()


async def limit_time(spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext) -> ToolResult:
    """Stop a call after the timeout of its spec."""
    limit = asyncio.timeout(spec.timeout)
    try:
        async with limit:
            return await call_next()
    except TimeoutError:
        if not limit.expired():
            raise  # it is the tool's own
    if spec.read_only or spec.kind is ToolClass.TRANSACTIONAL:
        effect = "it changed nothing"
    else:
        effect = "it is not known whether it took effect: verify before you call it again"
    return ToolResult(
        content=f"`{spec.name}` was stopped after {spec.timeout:g} seconds: {effect}",
        failed=True,
        unknown=spec.kind is ToolClass.EFFECTFUL,
    )


async def catch_errors(
    spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext
) -> ToolResult:
    """Turn a `HoldfastError` of the tool into a failed result for the model."""
    try:
        return await call_next()
    except LeaseLost:
        raise  # another worker owns the run now
    except Unavailable as error:
        if spec.kind is ToolClass.TRANSACTIONAL:
            raise  # our own store is unavailable: the model cannot help, and the call can be retried
        return _error_result(error, unknown=isinstance(error, OutcomeUnknown) and spec.kind is ToolClass.EFFECTFUL)
    except HoldfastError as error:
        return _error_result(error)


def _error_result(error: HoldfastError, *, unknown: bool = False) -> ToolResult:
    return ToolResult(content=f"{error.code}: {error.message}", failed=True, unknown=unknown)


def output_artifact_id(call: ToolContext) -> ArtifactId:
    """Return the id of the artifact with the whole output of `call`, if that is too long."""
    # Different from the ids that the tool itself may derive from the key, for its own artifacts.
    return ArtifactId(derived_id("art", key=f"{call.key}.output"))


async def limit_output(
    spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext
) -> ToolResult:
    """Cut an output that is longer than the limit of the spec, and keep the whole of it as an artifact."""
    result = await call_next()
    if result.wait is not None:
        return result
    content = sanitize(result.content)
    text = as_text(content)
    if len(text) <= spec.output_limit:
        return result if content == result.content else replace(result, content=content)
    artifact = NewArtifact(
        id=output_artifact_id(call),
        type=ArtifactType.OTHER,
        title=f"output of {spec.name}",
        content=text[:MAX_ARTIFACT_CHARS],
        media_type="text/plain" if isinstance(content, str) else "application/json",
        metadata={"tool_call_id": call.id},
    )
    return replace(
        result,
        content=_truncate_middle(text, output_artifact_id(call), limit=spec.output_limit),
        artifacts=[*result.artifacts, artifact],
        events=[*result.events, artifact_created_event(artifact)],
    )


def _truncate_middle(text: str, artifact_id: ArtifactId, *, limit: int) -> str:
    """Return the head and tail of `text` around a note, at most `limit` characters in all."""
    kept = "all" if len(text) <= MAX_ARTIFACT_CHARS else f"the first {MAX_ARTIFACT_CHARS}"

    def note(cut: int) -> str:
        return f"\n[{cut} of {len(text)} characters are left out here: artifact `{artifact_id}` has {kept} of them]\n"

    # The note with the largest number is the longest one, so any other fits into the same space.
    longest = note(len(text))
    room = limit - len(longest)
    if room <= 0:
        return longest.strip()[:limit]
    head, tail = room - room // 2, room // 2
    return text[:head] + note(len(text) - room) + text[len(text) - tail :]


async def mark_untrusted(
    spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext
) -> ToolResult:
    """Name the tool as the untrusted source of a result that names none."""
    result = await call_next()
    return result if result.untrusted is not None else replace(result, untrusted=taint_source_name("tool", spec.name))
