"""Single-slot Paxos for the versions of the register, without I/O: the acceptor, the rounds of proposers and learners, quorums and validation. Pure: imports the messages and the contract."""
