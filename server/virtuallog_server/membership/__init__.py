"""The requests of operators about nodes: add, replace, drain and remove them. Imports healing."""
