"""The replicated log of Mesos used by itself: Log, LogReader and LogWriter over static members or ZooKeeper, without a chain.

`facade.py` opens one on a real machine. Imports the drivers and cores; no other part of the folder imports it."""
