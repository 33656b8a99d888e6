"""Sixty lines of Spark become the one that says what happened."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException

from pyspark_virtuallog.spark_errors import JobError, explain, explained
from virtuallog.contract.errors import UnavailableError

TASK = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/virtuallog/reader.py", line 7, in read
    raise UnavailableError("no answer")
virtuallog.contract.errors.UnavailableError: no answer

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/pyspark_virtuallog/read/rows.py", line 57, in check_whole
    raise TrimmedError(stop)
virtuallog.contract.errors.TrimmedError: trimmed: the log starts at 7

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


def test_errors_of_all_our_packages_are_ours() -> None:
    """Their class is not named, as their text says what is wrong."""
    text = "Traceback\nvirtuallog_database.client.errors.NoNodeError: there is no znode /a\n"

    assert str(explain(PySparkException(text))) == "there is no znode /a"


def test_an_error_of_something_else_is_named_too() -> None:
    """Errors of a user's function, or of Spark itself."""
    assert str(explain(PySparkException("Traceback\nValueError: not this\n\tat org"))) == "ValueError: not this"
    assert str(explain(PySparkException("[TABLE_NOT_FOUND] no such table\nmore"))) == "[TABLE_NOT_FOUND] no such table"


JAVA = """An error occurred while calling o57.save.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.jobAborted(QueryExecutionErrors.scala:1)
Caused by: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed.
\t... 12 more
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""


def test_of_java_alone_the_last_cause_is_told() -> None:
    """Its first line only names the called method."""
    assert str(explain(PySparkException(JAVA))) == "java.io.IOException: No space left on device"


def test_python_within_java_is_told_rather_than_java() -> None:
    """Java's own cause is then that Python has failed."""
    text = JAVA + "Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n" + TASK
    python = text.replace("virtuallog.contract.errors.", "elsewhere.").replace("AnalysisException", "")

    assert str(explain(PySparkException(text))) == "trimmed: the log starts at 7"
    assert str(explain(PySparkException(python))) == "elsewhere.TrimmedError: trimmed: the log starts at 7"


def test_errors_of_ours_that_are_not_in_the_family_of_the_log_are_told_too() -> None:
    """Without the name of a class, which tells users nothing."""
    text = "Traceback\npyspark_virtuallog.write.batch_commit.SupersededError: batch 7 of query q: a later batch is committed.\n"

    assert str(explain(PySparkException(text))) == "batch 7 of query q: a later batch is committed."


def test_an_error_within_a_group_is_found() -> None:
    """Callers that wait for Spark beside other things get a group."""
    group = ExceptionGroup("tasks", [ExceptionGroup("more", [AnalysisException(TASK)])])

    assert str(explain(group)) == "trimmed: the log starts at 7"
    assert explain(ExceptionGroup("tasks", [ValueError("bug")])) is None


def test_a_java_that_has_ended_is_told() -> None:
    """The kernel kills what takes most memory."""
    error = type("Py4JNetworkError", (Exception,), {"__module__": "py4j.protocol"})

    assert "its Java was killed" in str(explain(error("Answer from Java side is empty")))


def test_what_is_none_of_sparks_is_left_alone() -> None:
    """Bugs keep their tracebacks."""
    with pytest.raises(KeyError), explained():
        raise KeyError("bug")
    with pytest.raises(JobError, match="the log starts at 7"), explained():
        raise AnalysisException(TASK)
