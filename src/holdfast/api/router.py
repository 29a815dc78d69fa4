"""Every route of the API, in the order of the OpenAPI document."""

from typing import Final

from litestar.handlers import HTTPRouteHandler

from holdfast.api.ag_ui import routes as ag_ui
from holdfast.api.chat import routes as chat
from holdfast.api.openai import routes as openai
from holdfast.api.routes import (
    agents,
    artifacts,
    memories,
    memory_files,
    notifications,
    plans,
    recall,
    reminders,
    run_details,
    runs,
    schedules,
    settings,
    skills,
    streams,
    system,
    threads,
    webhooks,
    workspace,
)
from holdfast.api.tasks import routes as tasks

ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (
    *system.ROUTES,
    *system.METRICS_ROUTES,
    *workspace.ROUTES,
    *workspace.KEY_ROUTES,
    *agents.ROUTES,
    *workspace.TOOL_ROUTES,
    *threads.ROUTES,
    *threads.CONVERSATION_ROUTES,
    *plans.ROUTES,
    *runs.ROUTES,
    *run_details.ROUTES,
    *artifacts.ROUTES,
    *artifacts.FILE_ROUTES,
    *schedules.ROUTES,
    *schedules.HOOK_ROUTES,
    *reminders.ROUTES,
    *webhooks.ROUTES,
    *memories.ROUTES,
    *memory_files.ROUTES,
    *recall.ROUTES,
    *skills.ROUTES,
    *notifications.ROUTES,
    *streams.ROUTES,
    *ag_ui.ROUTES,
    *tasks.ROUTES,
    *chat.ROUTES,
    *settings.ROUTES,
    *chat.MODEL_ROUTES,
    *openai.ROUTES,
)
SOCKETS: Final = (*streams.SOCKETS, *chat.SOCKETS)
