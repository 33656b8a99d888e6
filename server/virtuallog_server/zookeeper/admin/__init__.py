"""Observation of a server by ZooKeeper's own means: four-letter words and admin pages over one record of facts. Imports no other room of the server."""
