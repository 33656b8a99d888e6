"""Scenarios of one bare raft loglet: clients that race, elections, seals against stuck leaders, copies of closed loglets."""
