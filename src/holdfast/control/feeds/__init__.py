"""Live feeds: what many follow is read once, and what they are sent is shared.

    watcher ── "it grew" ──► one reader per feed ──► a window of chunks ──► every follower, at its own position
                                                          ▲
    log ── pages, for who is behind the window ───────────┘

A follower has a position and nothing else, so a slow one costs no memory. Nothing is lost or doubled where a page ends
and the window begins, because both are counted by the numbers of the log.
"""
