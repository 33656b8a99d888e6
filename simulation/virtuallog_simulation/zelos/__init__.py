"""Clients of a Zelos that are judged: their wire, their sessions, what they do, and what they heard."""
