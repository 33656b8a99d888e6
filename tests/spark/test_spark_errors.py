"""Sixty lines of Spark become the one that says what happened."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException

from pyspark_virtuallog.spark_errors import JobError, explain, explained
from virtuallog.errors import UnavailableError

TASK = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/virtuallog/reader.py", line 7, in read
    raise UnavailableError("no answer")
virtuallog.errors.UnavailableError: no answer

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/pyspark_virtuallog/rows.py", line 57, in check_whole
    raise TrimmedError(stop)
virtuallog.errors.TrimmedError: trimmed: the log starts at 7

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1097)
 SQLSTATE: 38000
"""


def test_the_last_error_of_ours_is_what_happened() -> None:
    """Those before it are what it comes from."""
    assert str(explain(AnalysisException(TASK))) == "trimmed: the log starts at 7"
    assert isinstance(explain(AnalysisException(TASK)), JobError)


def test_what_may_succeed_later_is_told_from_what_will_not() -> None:
    """Commands have an exit code for that."""
    text = "Traceback\nvirtuallog.errors.UnavailableError: no node of the cluster can be used\n"

    assert isinstance(explain(PySparkException(text)), UnavailableError)


def test_an_error_of_something_else_is_named_too() -> None:
    """Of a function of the user's, or of Spark itself."""
    assert str(explain(PySparkException("Traceback\nValueError: not this\n\tat org"))) == "ValueError: not this"
    assert str(explain(PySparkException("[TABLE_NOT_FOUND] no such table\nmore"))) == "[TABLE_NOT_FOUND] no such table"


def test_what_is_none_of_sparks_is_left_alone() -> None:
    """Bugs keep their tracebacks."""
    with pytest.raises(KeyError), explained():
        raise KeyError("bug")
    with pytest.raises(JobError, match="the log starts at 7"), explained():
        raise AnalysisException(TASK)
