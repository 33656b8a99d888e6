"""Compaction: what the log of a database says up to a position becomes a state that servers begin with, and the log may be trimmed.

    replaying    one deterministic replay: what each entry did (effects), as Parquet     beginning, chunks, playing
    folding      Spark: of each key the effect at the highest position, over the last compaction; sorted; Parquet and SST files
    publishing   the files become a store, which is compared with that of the replay; the manifest comes last
    cleaning      what is left behind, by those who were killed, too

`compacting.py` runs all of it. Killed anywhere, the same command goes on: chunks of effects stay, and the store of the replay never
stands past them.
"""
