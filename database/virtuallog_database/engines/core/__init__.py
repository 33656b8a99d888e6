"""The pure part of the engines (SOSP'21).

Log entries and the order in which they are applied, commands and records that engines keep in the
log and in the store, proposals, pacing and timers. Imports the store's port and `virtuallog`.
"""
