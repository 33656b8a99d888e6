"""One client's connection from handshake to close: the session it gets, its requests, reads and syncs, and the bounds on them. Imports wire, auth and admin."""
