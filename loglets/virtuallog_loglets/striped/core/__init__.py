"""Pure cores of a StripedLoglet: slot layout, progress of the stripes, fill policy, wrapped batches, merged reads and placement. No tasks, clocks or I/O."""
