"""The Paxos log as a system to explore."""
