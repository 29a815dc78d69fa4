"""The store on one SQLite file, which one process owns."""
