"""Histories of clients, and the checkers that judge them: actions and their outcomes, linearizability of one loglet, consistency of the register. Pure: imports the contract only."""
