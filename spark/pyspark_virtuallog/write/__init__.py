"""Writes: `DataFrame.write` and `writeStream`, as attempts of tasks and a commit of the driver."""
