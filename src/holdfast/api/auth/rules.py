"""The scope that each route requires: one table, by the name of the route's handler function.

A route that is missing here requires an admin key for every space, and a test reports it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.control.errors import Forbidden
from holdfast.control.principal import Principal
from holdfast.domain.space import Scope

PUBLIC_ROUTES: Final = frozenset(
    {"read_health", "read_ready", "read_openapi", "read_methods", "deliver_hook", "end_browser_session"}
)
"""Routes that need no key, because they show nothing of any space."""

_READ_ROUTES: Final = """
    read_version list_spaces read_space read_usage read_queue read_queue_settings list_workers read_budget
    list_grants list_agents read_agent list_agent_versions read_agent_version diff_agent_versions list_tools
    list_threads read_thread list_messages read_message compare_branches
    list_revisions list_run_messages read_history read_tree export_thread
    list_plan_items read_plan_item read_plan list_space_tasks
    list_thread_runs read_thread_run list_runs read_run list_events list_steps read_context list_children
    list_interrupts count_interrupts read_interrupt
    list_artifacts read_artifact preview_artifact list_run_artifacts list_thread_artifacts
    list_memories read_memory read_memory_timeline read_memory_graph export_memories read_memory_provenance
    list_memory_files search_memory_files read_memory_file read_memory_status
    read_memory_history search_memories search_threads search_messages search_everything
    list_files read_file read_file_content list_notifications count_unread
    follow_run follow_notifications follow_space run_socket join_segment
    list_tasks read_task list_task_events follow_task read_task_context
    list_contract_agents read_contract_agent list_sessions read_session list_session_messages read_session_context
    list_schedules read_schedule list_firings list_daemons read_daemon list_reminders read_reminder
    list_skills read_skill read_skill_catalog list_skill_versions export_skill read_run_skills
    list_known_models list_models read_model create_ticket read_me start_browser_session client_socket
    list_webhooks read_webhook list_deliveries
"""
_RUN_ROUTES: Final = """
    create_thread update_thread delete_thread archive_thread unarchive_thread
    create_plan_item update_plan_item create_run create_run_on_thread cancel_run respond retry_run steer_run
    create_memory update_memory supersede_memory accept_memory retract_memory forget_memory forget_memories
    write_memory_file delete_memory_file rebuild_memory_index
    create_artifact upload_file delete_file mark_read run_agent
    create_schedule update_schedule delete_schedule run_schedule pause_schedule resume_schedule
    start_daemon stop_daemon trigger_daemon
    create_reminder update_reminder delete_reminder trigger_reminder snooze_reminder complete_reminder dismiss_reminder
    create_task delete_task respond_to_task cancel_task
    chat delete_session cancel_session call_model complete_chat create_response
"""
_ADMIN_ROUTES: Final = """
    create_contract_agent replace_contract_agent update_contract_agent delete_contract_agent
    create_agent replace_agent update_agent delete_agent activate_agent_version
    create_webhook update_webhook delete_webhook resend_delivery
    import_memories update_space delete_space put_budget delete_budget revoke_grant list_keys create_key revoke_key
    create_skill update_skill delete_skill enable_skill disable_skill import_skill
"""


class RouteRule(NamedTuple):
    """The access that a route requires."""

    scope: Scope
    everywhere: bool = False
    """Whether the route needs access to every space."""


ROUTE_RULES: Final[Mapping[str, RouteRule]] = {
    **dict.fromkeys(_READ_ROUTES.split(), RouteRule(Scope.READ)),
    **dict.fromkeys(_RUN_ROUTES.split(), RouteRule(Scope.RUN)),
    **dict.fromkeys(_ADMIN_ROUTES.split(), RouteRule(Scope.ADMIN)),
    **dict.fromkeys(("read_metrics", "list_backlogs"), RouteRule(Scope.READ, everywhere=True)),
    **dict.fromkeys(
        ("create_space", "put_queue_settings", "read_settings", "update_settings"),
        RouteRule(Scope.ADMIN, everywhere=True),
    ),
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
