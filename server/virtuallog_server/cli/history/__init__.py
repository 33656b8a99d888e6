"""Work of `virtuallog database get`, `ls`, `diff` and `history`."""
