"""The composition root of the use cases: wires the ports of an open workspace for each principal."""

from collections.abc import Callable
from typing import Final

from holdfast.api.ag_ui.runs import AgUiControl
from holdfast.api.chat.chats import ChatControl
from holdfast.api.chat.live_sessions import LiveControl
from holdfast.api.chat.model_calls import ModelCalls
from holdfast.api.chat.sessions import SessionControl
from holdfast.api.openai.completions import CompletionControl
from holdfast.api.tasks.tasks import TaskControl
from holdfast.api.use_cases import UseCases
from holdfast.bootstrap.store import SystemClock
from holdfast.bootstrap.workspace import OpenWorkspace
from holdfast.control.agent_versions import AgentVersionControl
from holdfast.control.agents import AgentControl
from holdfast.control.api_keys import CachedKeyAuthenticator, KeyControl
from holdfast.control.artifacts import ArtifactControl
from holdfast.control.daemons import DaemonControl
from holdfast.control.memories import MemoryControl
from holdfast.control.memory_files import FolderMemoryFiles, MemoryFileControl, MemoryFileIndex
from holdfast.control.monitoring import HealthControl, MetricsControl
from holdfast.control.plans import PlanControl
from holdfast.control.principal import Principal
from holdfast.control.recall import RecallControl
from holdfast.control.reminders import ReminderControl
from holdfast.control.run_details import RunDetailsControl
from holdfast.control.run_starts import RunStartControl
from holdfast.control.runs import QueueLimit
from holdfast.control.schedules import ScheduleControl
from holdfast.control.search import SearchControl
from holdfast.control.skills import SkillControl
from holdfast.control.spaces import NotificationControl, SpaceControl, UsageControl
from holdfast.control.streams.live_streams import LiveStreams, StreamLimits
from holdfast.control.threads import ConversationControl, ThreadControl
from holdfast.control.tickets import TicketAuthenticator, TicketControl
from holdfast.control.tools import ToolControl
from holdfast.control.webhooks import WebhookControl
from holdfast.domain.space import Scope
from holdfast.ports.runtime import Clock

MAX_CACHED_PRINCIPALS: Final = 1024
"""Principals whose use cases are cached."""


def make_live_streams(holdfast: OpenWorkspace, limits: StreamLimits | None = None) -> LiveStreams:
    """Return the live streams of an open workspace."""
    store = holdfast.store
    return LiveStreams(
        spaces=store.spaces,
        runs=store.runs,
        events=store.events,
        notifications=store.notifications,
        watcher=holdfast.watcher,
        limits=limits,
    )


class PrincipalUseCases:
    """The use cases of an open workspace for each principal. Parts with state of their own are created once."""

    def __init__(
        self,
        holdfast: OpenWorkspace,
        streams: LiveStreams,
        *,
        version: str,
        default_agent: Callable[[], str | None] = lambda: None,
        clock: Clock | None = None,
        max_queued_runs: int | None = None,
    ) -> None:
        """Limit the queued runs of each space to `max_queued_runs`, if it is given."""
        store = holdfast.store
        self._holdfast = holdfast
        self._streams = streams
        self._default_agent = default_agent
        self._clock = clock or SystemClock()
        self._health = HealthControl(store.health, version=version)
        self._metrics = MetricsControl(holdfast.meters, store.run_counts, version=version)
        self._queue_limit = None
        if max_queued_runs is not None:
            self._queue_limit = QueueLimit(store.run_counts, max_queued=max_queued_runs)
        self._cache: dict[Principal, UseCases] = {}
        self._memory_file_index = MemoryFileIndex(
            FolderMemoryFiles(holdfast.working_folders, self._clock), holdfast.recall, self._clock
        )
        self.authenticator = CachedKeyAuthenticator(store.api_keys, self._clock)
        self.ticket_authenticator = TicketAuthenticator(store.tickets, self.authenticator, self._clock)

    def as_principal(self, principal: Principal) -> UseCases:
        """Return the use cases that act for a principal."""
        use_cases = self._cache.get(principal)
        if use_cases is None:
            if len(self._cache) >= MAX_CACHED_PRINCIPALS:
                self._cache.clear()
            use_cases = self._cache[principal] = self._make(principal)
        return use_cases

    def _make(self, principal: Principal) -> UseCases:
        holdfast, store, streams = self._holdfast, self._holdfast.store, self._streams
        name, space = principal.name, principal.default_space
        runs = holdfast.runs.as_principal(name, queue_limit=self._queue_limit)
        starts = RunStartControl(control=runs, runs=store.runs, watcher=holdfast.watcher, streams=streams)
        agents = AgentControl(
            holdfast.agents,
            definitions=holdfast.agent_definitions,
            files=holdfast.agent_files,
            versions=store.agent_versions,
            requests=store.requests,
            principal=principal,
        )
        threads = ThreadControl(
            threads=store.threads,
            runs=store.runs,
            requests=store.requests,
            agents=holdfast.agents,
            default_agent=self._default_agent,
            principal=name,
        )
        conversations = ConversationControl(threads=store.threads, runs=store.runs, messages=store.messages)
        completions = CompletionControl(
            space=space,
            principal_name=name,
            control=runs,
            runs=store.runs,
            threads=store.threads,
            messages=store.messages,
            interrupts=store.interrupts,
            requests=store.requests,
            agents=holdfast.agents,
            watcher=holdfast.watcher,
            streams=streams,
        )
        sessions = SessionControl(
            space=space,
            control=runs,
            threads=store.threads,
            runs=store.runs,
            steps=store.steps,
            contexts=store.contexts,
            thread_control=threads,
            conversations=conversations,
        )
        recall = RecallControl(
            recall=holdfast.recall,
            memories=store.memories,
            threads=store.threads,
            outlines=store.outlines,
            files=self._memory_file_index,
            principal=name,
        )
        return UseCases(
            spaces=SpaceControl(
                store.spaces, store.requests, store.grants, holdfast.working_folders, principal=principal
            ),
            space_store=store.spaces,
            grant_store=store.grants,
            keys=KeyControl(store.api_keys, self.authenticator, self._clock, principal=principal),
            tickets=TicketControl(store.tickets, self._clock, principal=principal),
            agents=agents,
            agent_versions=AgentVersionControl(store.agent_versions, holdfast.agents, principal=principal),
            tools=ToolControl(holdfast.tools, agents=holdfast.agents, spaces=store.spaces),
            threads=threads,
            message_store=store.messages,
            conversations=conversations,
            plans=PlanControl(
                threads=store.threads, runs=store.runs, plans=store.plans, requests=store.requests, principal=name
            ),
            plan_store=store.plans,
            starts=starts,
            runs=runs,
            run_store=store.runs,
            details=RunDetailsControl(
                runs=store.runs,
                threads=store.threads,
                events=store.events,
                contexts=store.contexts,
                values=store.values,
            ),
            step_store=store.steps,
            interrupt_store=store.interrupts,
            artifacts=ArtifactControl(
                artifacts=store.artifacts,
                threads=store.threads,
                runs=store.runs,
                requests=store.requests,
                principal=name,
            ),
            artifact_store=store.artifacts,
            file_store=store.files,
            schedules=ScheduleControl(
                schedules=store.schedules,
                firing=holdfast.firing,
                requests=store.requests,
                clock=self._clock,
                principal=name,
            ),
            schedule_store=store.schedules,
            daemons=DaemonControl(
                schedules=store.schedules, firing=holdfast.firing, agents=holdfast.agents, space=space, principal=name
            ),
            reminders=ReminderControl(
                reminders=store.reminders,
                schedules=store.schedules,
                threads=store.threads,
                firing=holdfast.firing,
                requests=store.requests,
                clock=self._clock,
                principal=name,
            ),
            reminder_store=store.reminders,
            webhooks=WebhookControl(webhooks=store.webhooks, addresses=holdfast.web_addresses, principal=name),
            webhook_store=store.webhooks,
            memories=MemoryControl(
                memories=store.memories,
                graph=store.memory_graph,
                archive=store.memory_archive,
                forgetting=store.forgetting,
                requests=store.requests,
                recall=holdfast.recall,
                principal=name,
            ),
            memory_store=store.memories,
            memory_files=MemoryFileControl(FolderMemoryFiles(holdfast.working_folders, self._clock), store.spaces),
            recall=recall,
            search=SearchControl(
                recall=recall,
                spaces=store.spaces,
                threads=store.threads,
                runs=store.runs,
                artifacts=store.artifacts,
                memories=store.memories,
                interrupts=store.interrupts,
                agents=holdfast.agents,
            ),
            skills=SkillControl(
                skills=store.skills,
                shelf=holdfast.skills,
                agents=holdfast.agents,
                requests=store.requests,
                runs=store.runs,
                values=store.values,
                principal=name,
            ),
            skill_store=store.skills,
            notifications=NotificationControl(store.notifications),
            usage=UsageControl(store.usage, self._clock),
            worker_store=store.workers,
            budget_store=store.space_budgets,
            streams=streams,
            tasks=TaskControl(
                space=space,
                control=runs,
                runs=store.runs,
                events=store.events,
                steps=store.steps,
                contexts=store.contexts,
                interrupts=store.interrupts,
                requests=store.requests,
                agents=holdfast.agents,
                streams=streams,
            ),
            completions=completions,
            sessions=sessions,
            chats=ChatControl(space=space, agents=agents, sessions=sessions, completions=completions, runs=store.runs),
            live=LiveControl(
                space=space,
                streams=streams,
                runs=store.runs,
                sessions=sessions,
                methods=holdfast.remote_methods,
                may_run=principal.scope.includes(Scope.RUN),
            ),
            settings=holdfast.settings,
            model_calls=ModelCalls(models=holdfast.models, known=holdfast.known_models),
            ag_ui=AgUiControl(
                starts=starts,
                control=runs,
                runs=store.runs,
                threads=store.threads,
                messages=store.messages,
                events=store.events,
                interrupts=store.interrupts,
                values=store.values,
                streams=streams,
                principal_name=name,
            ),
            health=self._health,
            metrics=self._metrics,
        )
