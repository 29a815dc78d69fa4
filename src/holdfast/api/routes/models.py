"""Models without an agent, in the style of the tasks contract."""

from typing import Final

from litestar import get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody

from holdfast.api.chat.model_bodies import ModelCallBody, ModelCatalog
from holdfast.api.task_contract.refusals import refusals
from holdfast.control.chat.errors import MODEL_ERRORS
from holdfast.control.chat.model_calls import ModelAnswer, ModelCalls
from holdfast.domain.errors import NotFound

_TAGS: Final = ["models"]
_REFUSALS: Final = refusals(MODEL_ERRORS, not_found=NotFound)


@get("/models", summary="List models", tags=_TAGS, exception_handlers=_REFUSALS)
async def list_known_models(model_calls: NamedDependency[ModelCalls]) -> ModelCatalog:
    """Return the providers and which have a key, and the models that are known, with what they read and cost."""
    return ModelCatalog(providers=await model_calls.providers(), models=await model_calls.known())


@post("/completions", summary="Call a model", tags=_TAGS, status_code=200, exception_handlers=_REFUSALS)
async def call_model(model_calls: NamedDependency[ModelCalls], data: JSONBody[ModelCallBody]) -> ModelAnswer:
    """Call a model once, without an agent. Nothing of it is kept, and it is not tried again."""
    return await model_calls.call(data.model, data.said(), system=data.system, settings=data.settings())


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (list_known_models, call_model)
