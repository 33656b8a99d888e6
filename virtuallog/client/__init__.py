"""The client of a log: one address space over the chain, appenders, readers, scans, and how a client finds its cluster. Imports the contract, ordering, runtime, rpc, admin and reconfiguration."""
