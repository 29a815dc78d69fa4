"""What clients follow over one socket: tasks and sessions, each after a cursor, with nothing lost or doubled."""
