"""`Store`: all store ports over one database."""

from holdfast.metrics.meters import Meters
from holdfast.store.agent_versions import SqlAgentVersions
from holdfast.store.artifacts import SqlArtifacts, SqlFiles
from holdfast.store.folders import SqlFolders
from holdfast.store.forgetting import SqlForgetting
from holdfast.store.inbox import SqlInbox, SqlSubscriptions
from holdfast.store.interrupts import SqlInterrupts
from holdfast.store.journal import SqlEventLog, SqlJournal
from holdfast.store.leases import SqlLeases
from holdfast.store.memories import SqlMemories
from holdfast.store.memory_archive import SqlMemoryArchive
from holdfast.store.memory_graph import SqlMemoryGraph
from holdfast.store.messages import SqlMessages
from holdfast.store.notifications import SqlNotifications
from holdfast.store.outlines import SqlThreadOutlines
from holdfast.store.plans import SqlPlans
from holdfast.store.recall_index import SqlRecallIndex
from holdfast.store.reminders import SqlReminders
from holdfast.store.requests import SqlKeyedRequests
from holdfast.store.run_state import SqlContexts, SqlSteps, SqlValues
from holdfast.store.runs import SqlRunCounts, SqlRuns, SqlStoreHealth
from holdfast.store.schedules import SqlSchedules
from holdfast.store.skills import SqlSkills
from holdfast.store.space_budgets import SqlSpaceBudgets
from holdfast.store.spaces import SqlApiKeys, SqlGrants, SqlSpaces, SqlTickets, SqlToolTrust
from holdfast.store.threads import SqlThreads
from holdfast.store.timers import SqlTimers
from holdfast.store.transaction import Database
from holdfast.store.usage import SqlUsageLedger
from holdfast.store.webhooks import SqlWebhooks
from holdfast.store.worker_leases import SqlWorkerLeases
from holdfast.store.workers import SqlWorkers


class Store:
    """The ports of the store, over one database."""

    def __init__(self, database: Database, *, meters: Meters | None = None) -> None:
        counts = meters or Meters()
        self.spaces = SqlSpaces(database)
        self.threads = SqlThreads(database)
        self.messages = SqlMessages(database)
        self.runs = SqlRuns(database, counts)
        self.leases = SqlLeases(database, counts)
        self.worker_leases = SqlWorkerLeases(database, self.leases)
        self.journal = SqlJournal(database, counts)
        self.inbox, self.subscriptions = SqlInbox(database), SqlSubscriptions(database)
        self.events = SqlEventLog(database)
        self.steps = SqlSteps(database)
        self.values = SqlValues(database)
        self.plans = SqlPlans(database)
        self.interrupts = SqlInterrupts(database)
        self.contexts = SqlContexts(database)
        self.artifacts = SqlArtifacts(database)
        self.files, self.folders = SqlFiles(database), SqlFolders(database)
        self.memories = SqlMemories(database)
        self.memory_archive, self.memory_graph = SqlMemoryArchive(database), SqlMemoryGraph(database)
        self.recall_index, self.outlines = SqlRecallIndex(database), SqlThreadOutlines(database)
        self.forgetting = SqlForgetting(database)
        self.timers = SqlTimers(database)
        self.schedules = SqlSchedules(database)
        self.reminders = SqlReminders(database)
        self.webhooks = SqlWebhooks(database)
        self.skills, self.agent_versions = SqlSkills(database), SqlAgentVersions(database)
        self.api_keys = SqlApiKeys(database)
        self.grants = SqlGrants(database)
        self.tickets = SqlTickets(database)
        self.notifications = SqlNotifications(database)
        self.tool_trust = SqlToolTrust(database)
        self.run_counts, self.workers = SqlRunCounts(database), SqlWorkers(database)
        self.usage, self.space_budgets = SqlUsageLedger(database), SqlSpaceBudgets(database)
        self.health = SqlStoreHealth(database)
        self.requests = SqlKeyedRequests(database, lambda joined: Store(joined, meters=counts))
