"""Use cases of a workspace for one principal, by the name under which routes receive them.

A route that needs nothing but a store receives the port itself: the middleware has checked scope and space before.
"""

from typing import NamedTuple

from holdfast.api.ag_ui.runs import AgUiControl
from holdfast.api.chat.chats import ChatControl
from holdfast.api.chat.live_sessions import LiveControl
from holdfast.api.chat.model_calls import ModelCalls
from holdfast.api.chat.sessions import SessionControl
from holdfast.api.openai.completions import CompletionControl
from holdfast.api.tasks.tasks import TaskControl
from holdfast.control.agent_versions import AgentVersionControl
from holdfast.control.agents import AgentControl
from holdfast.control.api_keys import KeyControl
from holdfast.control.artifacts import ArtifactControl
from holdfast.control.daemons import DaemonControl
from holdfast.control.memories import MemoryControl
from holdfast.control.memory_files import MemoryFileControl
from holdfast.control.monitoring import HealthControl, MetricsControl
from holdfast.control.plans import PlanControl
from holdfast.control.recall import RecallControl
from holdfast.control.reminders import ReminderControl
from holdfast.control.run_details import RunDetailsControl
from holdfast.control.run_starts import RunStartControl
from holdfast.control.runs import RunControl
from holdfast.control.schedules import ScheduleControl
from holdfast.control.search import SearchControl
from holdfast.control.settings import SettingsControl
from holdfast.control.skills import SkillControl
from holdfast.control.spaces import NotificationControl, SpaceControl, UsageControl
from holdfast.control.streams.live_streams import LiveStreams
from holdfast.control.threads import ConversationControl, ThreadControl
from holdfast.control.tickets import TicketControl
from holdfast.control.tools import ToolControl
from holdfast.control.webhooks import WebhookControl
from holdfast.ports.artifacts import Artifacts, Files
from holdfast.ports.log import Messages, Steps
from holdfast.ports.memory import Memories
from holdfast.ports.queue import Interrupts, Workers
from holdfast.ports.reminders import Reminders
from holdfast.ports.runs import Plans, Runs
from holdfast.ports.schedules import Schedules
from holdfast.ports.skills import Skills
from holdfast.ports.spaces import Grants, SpaceBudgets, Spaces
from holdfast.ports.webhooks import Webhooks


class UseCases(NamedTuple):
    """The use cases of a workspace, and the ports that routes use directly."""

    spaces: SpaceControl
    space_store: Spaces
    grant_store: Grants

    keys: KeyControl
    tickets: TicketControl
    agents: AgentControl
    agent_versions: AgentVersionControl
    tools: ToolControl
    threads: ThreadControl
    message_store: Messages
    conversations: ConversationControl
    plans: PlanControl
    plan_store: Plans
    starts: RunStartControl
    runs: RunControl
    run_store: Runs
    details: RunDetailsControl
    step_store: Steps
    interrupt_store: Interrupts
    artifacts: ArtifactControl
    artifact_store: Artifacts
    file_store: Files
    memories: MemoryControl
    memory_store: Memories
    memory_files: MemoryFileControl
    recall: RecallControl
    search: SearchControl

    skills: SkillControl
    skill_store: Skills

    schedules: ScheduleControl
    schedule_store: Schedules
    daemons: DaemonControl
    reminders: ReminderControl
    reminder_store: Reminders
    webhooks: WebhookControl
    webhook_store: Webhooks

    notifications: NotificationControl
    usage: UsageControl
    worker_store: Workers
    budget_store: SpaceBudgets
    streams: LiveStreams
    tasks: TaskControl
    completions: CompletionControl
    sessions: SessionControl
    chats: ChatControl
    live: LiveControl
    settings: SettingsControl
    model_calls: ModelCalls
    ag_ui: AgUiControl
    health: HealthControl
    metrics: MetricsControl
