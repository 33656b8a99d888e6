"""Pure part of tables: commands in the log, their execution, and keys in the store."""
