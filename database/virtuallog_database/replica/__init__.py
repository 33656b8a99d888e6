"""A replica of the database: the engine stack over one store, and the database that it serves.

Also the host that restarts both, the expiry of sessions, and the replay of a log into a store
without a replica. Imports engines, tree and snapshots.
"""
