"""Scenarios of the conformance kit: the clauses, faults and chains that a provider of loglets is put through."""
