"""Checks of what servers hold: LogServers, acceptors and Paxos replicas, compared as plain values. Pure; imports `checks.history`."""
