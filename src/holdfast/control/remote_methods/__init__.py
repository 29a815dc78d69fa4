"""Remote methods: what connected clients offer, and agents call like tools.

    client ── offer ──► RemoteMethods ◄── list, call ── worker
       ▲                     │
       └──── call, cancel ───┘      the answer counts once, and only while the call is open

A method `deploy` is the tool `remote__deploy`. Nothing of it is kept: a client that comes back offers it again.
"""
