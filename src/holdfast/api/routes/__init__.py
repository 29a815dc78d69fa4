"""The routes, one module per thing."""

from typing import Final

from litestar.handlers import HTTPRouteHandler

from holdfast.api.ag_ui import routes as ag_ui
from holdfast.api.routes import (
    agents,
    artifacts,
    chat,
    conversations,
    files,
    keys,
    metrics,
    models,
    notifications,
    openai,
    plans,
    run_details,
    runs,
    settings,
    socket,
    spaces,
    system,
    tasks_contract,
    threads,
)
from holdfast.api.streams import routes as streams

ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (
    *system.ROUTES,
    *metrics.ROUTES,
    *spaces.ROUTES,
    *keys.ROUTES,
    *agents.ROUTES,
    *threads.ROUTES,
    *conversations.ROUTES,
    *plans.ROUTES,
    *runs.ROUTES,
    *run_details.ROUTES,
    *artifacts.ROUTES,
    *files.ROUTES,
    *notifications.ROUTES,
    *streams.ROUTES,
    *ag_ui.ROUTES,
    *tasks_contract.ROUTES,
    *chat.ROUTES,
    *settings.ROUTES,
    *models.ROUTES,
    *openai.ROUTES,
)
SOCKETS: Final = (*streams.SOCKETS, *socket.SOCKETS)
