"""Live streams: each log is read once per process and shared by its subscribers."""
