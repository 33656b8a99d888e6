"""Rules of the door, apart from I/O."""
