"""Clients of the database: ZooKeeper's wire protocol as a client sees it, sessions, and the operations that clients draw. Imports nothing of the rest of the simulator."""
