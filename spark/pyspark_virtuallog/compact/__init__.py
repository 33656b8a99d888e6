"""Compaction: the log of a database up to a position becomes a state that servers begin with, and
the log may be trimmed.

    replay         one deterministic replay: the effects of each entry, as Parquet            start_state, chunks, replay
    merge          Spark: for each key the effect at the highest position, over the last compaction; sorted; Parquet and SST files
    publication    the files become a store, which is compared with that of the replay; the manifest comes last
    cleanup        removes remains, also those of killed runs

`compaction.py` runs all of it. Killed anywhere, the same command resumes: chunks of effects stay,
and the store of the replay never stands past them.
"""
