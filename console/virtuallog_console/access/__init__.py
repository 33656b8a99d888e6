"""Access to the console: who asks, what the caller may do, and how much at a time.

    stream -> HttpConnections -> ConsoleApplication -> a route of a group
                 (TLS, head)      (host, caller, route, origin, role, body, admission)

`core/` decides and does nothing; `application` asks it before a route runs.
"""
