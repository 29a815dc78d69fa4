"""`Store`: all store ports over one database."""

from holdfast.metrics.meters import Meters
from holdfast.store.artifacts import SqlArtifacts, SqlFiles
from holdfast.store.inbox import SqlInbox, SqlSubscriptions
from holdfast.store.interrupts import SqlInterrupts
from holdfast.store.journal import SqlEventLog, SqlJournal
from holdfast.store.leases import SqlLeases
from holdfast.store.messages import SqlMessages
from holdfast.store.notifications import SqlNotifications
from holdfast.store.run_state import SqlContexts, SqlSteps, SqlValues
from holdfast.store.runs import SqlPlans, SqlRunCounts, SqlRuns
from holdfast.store.spaces import SqlApiKeys, SqlSpaces, SqlToolTrust
from holdfast.store.threads import SqlThreads
from holdfast.store.timers import SqlTimers
from holdfast.store.transaction import Database


class Store:
    """The ports of the store, over one database."""

    def __init__(self, database: Database, *, meters: Meters | None = None) -> None:
        counts = meters or Meters()
        self.spaces = SqlSpaces(database)
        self.threads = SqlThreads(database)
        self.messages = SqlMessages(database)
        self.runs = SqlRuns(database, counts)
        self.leases = SqlLeases(database, counts)
        self.journal = SqlJournal(database, counts)
        self.inbox = SqlInbox(database)
        self.subscriptions = SqlSubscriptions(database)
        self.events = SqlEventLog(database)
        self.steps = SqlSteps(database)
        self.values = SqlValues(database)
        self.plans = SqlPlans(database)
        self.interrupts = SqlInterrupts(database)
        self.contexts = SqlContexts(database)
        self.artifacts = SqlArtifacts(database)
        self.files = SqlFiles(database)
        self.timers = SqlTimers(database)
        self.api_keys = SqlApiKeys(database)
        self.notifications = SqlNotifications(database)
        self.tool_trust = SqlToolTrust(database)
        self.run_counts = SqlRunCounts(database)
