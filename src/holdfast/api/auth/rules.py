"""The scope that each route requires: one table, by the name of the route's handler function.

A route that is missing here requires an admin key for every space, and a test reports it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.control.errors import Forbidden
from holdfast.control.principal import Principal
from holdfast.domain.space import Scope

PUBLIC_ROUTES: Final = frozenset({"read_health", "read_ready", "read_openapi", "read_methods"})
"""Routes that need no key, because they show nothing of any space."""

_READ_ROUTES: Final = """
    read_version list_spaces read_space list_agents read_agent
    list_threads read_thread list_messages list_run_messages read_history read_tree export_thread
    list_plan_items read_plan list_space_tasks
    list_thread_runs read_thread_run list_runs read_run list_events list_steps read_context list_children
    list_interrupts list_artifacts read_artifact list_run_artifacts list_thread_artifacts
    list_files read_file read_file_content list_notifications count_unread
    follow_run follow_notifications follow_space run_socket join_segment
    list_tasks read_task list_task_events follow_task read_task_context
    list_contract_agents read_contract_agent list_sessions read_session list_session_messages read_session_context
    list_known_models list_models read_model
"""
_RUN_ROUTES: Final = """
    create_thread update_thread delete_thread archive_thread unarchive_thread
    create_plan_item update_plan_item create_run cancel_run respond retry_run steer_run
    create_artifact upload_file delete_file mark_read run_agent
    create_task delete_task respond_to_task cancel_task
    chat delete_session cancel_session call_model complete_chat client_socket
"""
_ADMIN_ROUTES: Final = "update_space delete_space list_keys create_key revoke_key"


class RouteRule(NamedTuple):
    """The access that a route requires."""

    scope: Scope
    everywhere: bool = False
    """Whether the route needs access to every space."""


ROUTE_RULES: Final[Mapping[str, RouteRule]] = {
    **dict.fromkeys(_READ_ROUTES.split(), RouteRule(Scope.READ)),
    **dict.fromkeys(_RUN_ROUTES.split(), RouteRule(Scope.RUN)),
    **dict.fromkeys(_ADMIN_ROUTES.split(), RouteRule(Scope.ADMIN)),
    "read_metrics": RouteRule(Scope.READ, everywhere=True),
    **dict.fromkeys(("create_space", "read_settings", "update_settings"), RouteRule(Scope.ADMIN, everywhere=True)),
}
_UNLISTED_RULE: Final = RouteRule(Scope.ADMIN, everywhere=True)


def check_route_allowed(principal: Principal, name: str) -> None:
    """Raise `Forbidden` unless a principal may use a route."""
    rule = ROUTE_RULES.get(name, _UNLISTED_RULE)
    if not principal.scope.includes(rule.scope):
        raise Forbidden(
            f"the route needs a key with the scope `{rule.scope}`: yours has `{principal.scope}`", scope=rule.scope
        )
    if rule.everywhere and not principal.has_all_spaces:
        raise Forbidden("the route concerns all spaces: use a key for every space")
