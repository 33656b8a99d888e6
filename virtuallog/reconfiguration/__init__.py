"""Changes of the chain and of the register: the rules in `core`, the drivers here.

`chain_writer` seals, finds the tail and puts; `successor` waits for another client's change or finishes it;
`watchdog` does so on nodes; `modification` puts a copy under a closed segment; `node_table_update` changes
the table of nodes; `chain_cache` is what a client knows of the chain. Imports the contract, `core` and
runtime.
"""
