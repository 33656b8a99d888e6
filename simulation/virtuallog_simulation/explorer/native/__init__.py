"""The native loglet as a system to explore."""
