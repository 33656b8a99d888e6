"""Backups measured: bytes a second beside `cp`, RPO and RTO, and restored states beside replays."""
