"""The demo behind `virtuallog demo`: a workload that never pauses while everything underneath is replaced, with its page and its picture. Imports the harness and the workload."""
