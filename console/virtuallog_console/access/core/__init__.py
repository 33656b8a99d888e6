"""Decisions about requests, from facts alone: pure."""
