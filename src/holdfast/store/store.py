"""Everything that is kept, by duty."""

from holdfast.metrics.meters import Meters
from holdfast.store.api_keys import SqlApiKeys
from holdfast.store.artifacts import SqlArtifacts
from holdfast.store.census import SqlCensus
from holdfast.store.contexts import SqlContexts
from holdfast.store.events import SqlEventLog
from holdfast.store.files import SqlFiles
from holdfast.store.inbox import SqlInbox
from holdfast.store.interrupts import SqlInterrupts
from holdfast.store.journal import SqlJournal
from holdfast.store.leases import SqlLeases
from holdfast.store.messages import SqlMessages
from holdfast.store.notifications import SqlNotifications
from holdfast.store.plans import SqlPlans
from holdfast.store.runs import SqlRuns
from holdfast.store.spaces import SqlSpaces
from holdfast.store.steps import SqlSteps
from holdfast.store.subscriptions import SqlSubscriptions
from holdfast.store.threads import SqlThreads
from holdfast.store.timers import SqlTimers
from holdfast.store.tool_trust import SqlToolTrust
from holdfast.store.transaction import Database
from holdfast.store.values import SqlValues


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
        self.census = SqlCensus(database)
