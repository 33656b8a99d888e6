"""Measurements and demonstrations: everything that measures virtuallog or shows it at work. May import every other package; no other package imports it."""
