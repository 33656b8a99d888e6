"""Single-slot Paxos for the versions of the register, without I/O.

The acceptor, the rounds of proposers and learners, quorums and validation. Pure: imports the
messages and the contract.
"""
