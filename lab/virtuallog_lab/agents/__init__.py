"""Registry of the agents of a cluster, as Mesos' master keeps it: records, the operations on them, and policies. Pure: no I/O, no clock.

This is the application with which the registrar is measured and compared.
"""
