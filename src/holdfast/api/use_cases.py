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
from holdfast.control.agents import AgentControl
from holdfast.control.api_keys import KeyControl
from holdfast.control.artifacts import ArtifactControl
from holdfast.control.monitoring import HealthControl, MetricsControl
from holdfast.control.plans import PlanControl
from holdfast.control.run_details import RunDetailsControl
from holdfast.control.run_starts import RunStartControl
from holdfast.control.runs import RunControl
from holdfast.control.settings import SettingsControl
from holdfast.control.spaces import NotificationControl, SpaceControl
from holdfast.control.streams.live_streams import LiveStreams
from holdfast.control.threads import ConversationControl, ThreadControl
from holdfast.ports.artifacts import Artifacts, Files
from holdfast.ports.queue import Interrupts
from holdfast.ports.runs import Runs, Threads
from holdfast.ports.spaces import Spaces


class UseCases(NamedTuple):
    """The use cases of a workspace, and the ports that routes use directly."""

    spaces: SpaceControl
    space_store: Spaces

    keys: KeyControl
    agents: AgentControl
    threads: ThreadControl
    thread_store: Threads

    conversations: ConversationControl
    plans: PlanControl
    starts: RunStartControl
    runs: RunControl
    run_store: Runs
    details: RunDetailsControl
    interrupt_store: Interrupts
    artifacts: ArtifactControl
    artifact_store: Artifacts
    file_store: Files

    notifications: NotificationControl
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
