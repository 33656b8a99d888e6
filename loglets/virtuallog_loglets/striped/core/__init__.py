"""Pure cores of a StripedLoglet: slot layout, progress, fill policy, wrapped batches, merged reads,
placement.

No tasks, clocks or I/O.
"""
