"""The contract of a log and of its parts: values and protocols only, all of it pure.

Positions, batches, the chain, the register, errors, ports, and the promises of loglets, loglet
providers and MetaStores. Read first: `loglet`, `provider`, `chain`. Imports nothing else of ours.
"""
