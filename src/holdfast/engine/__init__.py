"""Queue, lease, journal and timers; knows no model and no database."""
