"""Routes for the settings of the workspace, with the error format of the tasks contract."""

from typing import Any, Final

from litestar import Response, get, patch
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody

from holdfast.api.contract_errors import ContractInvalid, contract_error_handlers
from holdfast.api.errors import ErrorEnvelope
from holdfast.api.parameters import IfMatch, parse_etags
from holdfast.control.settings import SettingsChanged, SettingsControl, SettingsView
from holdfast.domain.errors import NotFound

_TAGS: Final = ["settings"]
SETTINGS_ERRORS: Final = (ContractInvalid, SettingsChanged)
_ERROR_HANDLERS: Final = contract_error_handlers(SETTINGS_ERRORS, not_found=NotFound)


@get("/settings", summary="Read the settings", tags=_TAGS, exception_handlers=_ERROR_HANDLERS)
async def read_settings(settings: NamedDependency[SettingsControl]) -> Response[SettingsView]:
    """Return the settings of the workspace with secrets masked."""
    return _settings_response(*settings.read())


@patch(
    "/settings",
    summary="Change the settings",
    tags=_TAGS,
    exception_handlers=_ERROR_HANDLERS,
    opt={"also": {"412": {"application/json": ErrorEnvelope}}},
)
async def update_settings(
    settings: NamedDependency[SettingsControl], data: JSONBody[dict[str, Any]], if_match: IfMatch = None
) -> Response[SettingsView]:
    """Change the settings that the body names; null removes a setting that cannot be null."""
    return _settings_response(*await settings.change(data, tags=parse_etags(if_match)))


def _settings_response(view: SettingsView, tag: str) -> Response[SettingsView]:
    return Response(view, headers={"ETag": f'"{tag}"', "Cache-Control": "no-store"})


ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (read_settings, update_settings)
