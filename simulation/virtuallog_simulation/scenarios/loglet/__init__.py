"""Scenarios of one bare loglet of any kind: clients that race over it, and directed ones about sealing, trimming and repair."""
