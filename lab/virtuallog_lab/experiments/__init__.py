"""Experiments: programs with one question each, run as `python -m virtuallog_lab.experiments.<room>.<program>`. Each prints tables, most draw a picture."""
