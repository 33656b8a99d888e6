"""The measurements behind `virtuallog bench`: the swap matrix over all ordered pairs of targets. Imports the harness and the workload."""
