"""Writes: what Spark calls for `DataFrame.write` and `writeStream`: attempts of tasks, and the commit of the driver."""
