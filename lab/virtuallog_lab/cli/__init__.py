"""The commands `virtuallog bench` and `virtuallog demo`, found through the entry-point group `virtuallog.commands`."""
