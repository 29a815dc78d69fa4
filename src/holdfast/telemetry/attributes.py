"""Span attribute names: those of the GenAI semantic conventions that are used here, and our own."""

from typing import Final

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
AGENT: Final = "gen_ai.agent.name"
CONVERSATION: Final = "gen_ai.conversation.id"
MODEL: Final = "gen_ai.request.model"
TEMPERATURE: Final = "gen_ai.request.temperature"
MAX_TOKENS: Final = "gen_ai.request.max_tokens"
STREAM: Final = "gen_ai.request.stream"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
TOOL: Final = "gen_ai.tool.name"
TOOL_CALL: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
ERROR: Final = "error.type"

RUN: Final = "holdfast.run.id"
SPACE: Final = "holdfast.space.id"
LEASE: Final = "holdfast.lease.number"
STATUS: Final = "holdfast.run.status"
COST: Final = "holdfast.usage.cost_usd"
OUTCOME: Final = "holdfast.tool.outcome"

CANCELLED_ERROR_TYPE: Final = "cut_off"
"""The `error.type` of a cancelled operation."""

_PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "grok": "x_ai",
    "mistral": "mistral_ai",
}


def provider_name(model: str) -> str:
    """Return the provider of `provider:model`, by its name in the conventions."""
    provider = model.partition(":")[0]
    return _PROVIDERS.get(provider, provider)


def model_name(model: str) -> str:
    """Return the provider's own name of a model."""
    provider, colon, name = model.partition(":")
    return name if colon else provider
