"""Markers: entries that decide which rows of a sink count. The writer appends them, committed
readers and the audit read them (docs/internals/protocols/sink.md)."""
