"""Histories of clients, and the checkers that judge them. Pure: imports the contract only.

Actions and their outcomes, linearizability of one loglet, consistency of the register.
"""
