"""A ZooKeeper-compatible database over the virtual log, replicated as in Delos (SOSP'21).

The way of a write:

1. `client/client.py` (or ZooKeeper's wire protocol in `virtuallog_server.zookeeper`) makes an
   operation: `client.set` a `SetData` (`tree/commands.py`).
2. `replica/database.py`, `submit`: the operation becomes a command with its origin and time.
   `tree/command_codec.py` encodes it, and the stack gets it as an entry (`engines/core/entry.py`).
3. `engines/stack.py` has the order of the engines. On the way down `engines/batching.py` puts
   commands together into one entry (group commit), and `engines/session_order.py` gives the entry
   its sequence number.
4. `engines/base/base_engine.py` adds a token, and appends the entry to the log. It is durable now,
   and has a position.
5. The base engine of every replica plays the log in order (`engines/core/player.py`), its own
   entries from memory and those of others by reading. It opens a transaction (`transaction.py`).
6. On the way up each engine applies its header. `engines/session_order.py` settles exactly-once and
   in-order: it passes up an entry once, and skips copies. `engines/batching.py` takes the group
   apart.
7. `replica/database.py`, `apply`: `tree/apply.py` executes the command on the transaction, with
   `tree/execution.py` and `tree/znode_operations.py`. A refusal is a result, too.
8. The transaction is written to the local store with the new cursor (`rocks/store.py`). Then
   `post_apply` goes up the stack: watches fire (`tree/watches.py`), and at the proposer
   `engines/session_order.py` and `engines/layers/layer.py` (`Completions`) call `done`.

A linearizable read is `prepare_read` and `confirm` of the same engines; its tail check is in
`engines/base/tail_checks.py`. What keeps a replica running, and gives it a snapshot when the log has
been trimmed past it, is `replica/host.py` and `snapshots/restorer.py`.
"""
