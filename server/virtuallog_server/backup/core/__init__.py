"""Pure parts of backups: the manifest, and the choice of ranges and of backups."""
