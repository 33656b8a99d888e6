"""A node as an operating-system process: real ports, listeners, signals, memory and file limits. Imports every room that serves; imported by commands and by embedded databases only."""
