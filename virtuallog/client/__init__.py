"""The client of a log: one address space over the chain, appenders, readers, scans, cluster files.

Imports the contract, ordering, runtime, rpc, admin and reconfiguration.
"""
