"""Pure cores of a NativeLoglet: log server, sequencer, tail check, repair, waves, WAL state.

Imports `wal.core` and the messages and config of this kind. No tasks, clocks or I/O.
"""
