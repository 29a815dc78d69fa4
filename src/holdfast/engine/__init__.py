"""The worker, its leases, the watcher and the timers. They depend on no model and no database."""
