"""Requests to servers of a database: from operators, from nodes before they trim, and from clients
that need the log kept."""
