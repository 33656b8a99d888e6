"""Reports on runs: the narrated history of a seed and the summary of many."""
