"""Everything that people and clients can do, by what it is done with."""

from typing import NamedTuple

from holdfast.control.ag_ui.ag_ui import AgUiControl
from holdfast.control.agents import AgentControl
from holdfast.control.artifacts import ArtifactControl, FileControl
from holdfast.control.chat.chats import ChatControl
from holdfast.control.chat.model_calls import ModelCalls
from holdfast.control.chat.sessions import SessionControl
from holdfast.control.conversations import ConversationControl
from holdfast.control.feeds.feeds import Feeds
from holdfast.control.health import Health
from holdfast.control.keys.keys import KeyControl
from holdfast.control.live.live import LiveControl
from holdfast.control.metrics import MetricsControl
from holdfast.control.notifications import NotificationControl
from holdfast.control.openai.completions import CompletionControl
from holdfast.control.plans import PlanControl
from holdfast.control.run_details import RunDetails
from holdfast.control.runs import RunControl
from holdfast.control.settings.settings import SettingsControl
from holdfast.control.spaces import SpaceControl
from holdfast.control.starting import RunStarts
from holdfast.control.task_contract.tasks import TaskControl
from holdfast.control.threads import ThreadControl


class Control(NamedTuple):
    """The use cases of a workspace."""

    spaces: SpaceControl
    keys: KeyControl
    agents: AgentControl
    threads: ThreadControl
    conversations: ConversationControl
    plans: PlanControl
    starts: RunStarts
    runs: RunControl
    details: RunDetails
    artifacts: ArtifactControl
    files: FileControl
    notifications: NotificationControl
    feeds: Feeds
    tasks: TaskControl
    completions: CompletionControl
    sessions: SessionControl
    chats: ChatControl
    live: LiveControl
    settings: SettingsControl
    model_calls: ModelCalls
    ag_ui: AgUiControl
    health: Health
    metrics: MetricsControl
