"""The replicated log of Mesos used by itself, without a chain: `Log`, `LogReader`, `LogWriter`.

Members are a fixed list or registered in ZooKeeper. `facade.py` opens a log on a real machine.
Imports the drivers and cores; no other part of the folder imports it.
"""
