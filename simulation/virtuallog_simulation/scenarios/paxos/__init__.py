"""Scenarios of one bare Paxos loglet: rival coordinators, lost messages and lost stores."""
