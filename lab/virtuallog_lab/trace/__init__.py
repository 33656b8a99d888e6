"""Traces of appends: what each process does for one, counted and on a time axis, of the product and of the floor.

Everything is recorded from outside: system calls, thread hand-overs, scheduler hooks and a few functions are wrapped while a trace runs.
"""
