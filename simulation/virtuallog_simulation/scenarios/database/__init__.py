"""Scenarios of the database, and the simulated servers, witness and connections that they share."""
