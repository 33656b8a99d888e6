"""Typed tables beside the tree, as in DelosTable (SOSP'21): rows of attrs classes, secondary indices, serializable transactions.

1. `schema.py`: a class becomes a table by the decorator `table`. Keys are encoded in their order (`core/key_codec.py`).
2. `client.py`, `transaction.py`: a transaction reads a snapshot of this replica, and remembers what it has read.
3. Its end puts one command into the log (`core/commands.py`): checks of what it has read, rows, index entries.
4. `core/execution.py` executes the command on every replica, whole or not at all (`core/keys.py`: keys in the store).
"""
