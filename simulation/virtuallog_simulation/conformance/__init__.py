"""The conformance kit: trials that judge if a provider of loglets keeps the contract. `virtuallog conformance`; docs/howto/write-a-loglet.md.

clauses.py    (in scenarios/conformance) every clause of the contract by itself, without faults
faults.py     clients race over a loglet while one class of faults strikes; then it must seal, tell its tail and read
(cluster)     a chain of loglets of this kind, alone and mixed with native: the simulator's main scenario
trials.py     the trials; report.py: the report on them
"""
