"""Pure parts of the history: the state of a znode at one moment, changes by commands, and differences of two states."""
