"""The control RPC: the ports of a worker that has no database, served and called over HTTP."""
