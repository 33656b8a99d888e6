"""The installed package: the wheel has all that Spark needs, and Spark finds the format by its
short name, as for a user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.source_tree import ROOT
from tests.spark.java import require_java

LIMIT_SECONDS = 600
READ = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF").getOrCreate()
try:
    spark.read.format("virtuallog").load("unreachable.toml").count()
except Exception as error:
    import pyspark_virtuallog
    from pyspark_virtuallog.spark_errors import explain
    print(pyspark_virtuallog.__file__)
    print(explain(error))
"""


def run(folder: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
        timeout=LIMIT_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def built(folder: Path) -> Path:
    """A wheel of what is in git's hands, beside which nothing lies that could stand in for it."""
    tree = folder / "tree"
    tracked = run(ROOT, "git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    for name in tracked:
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/")):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    run(tree, *pip, "--wheel-dir", str(folder), ".")
    (wheel,) = folder.glob("virtuallog-*.whl")
    return wheel


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.long
def test_spark_finds_the_format_in_what_is_installed(tmp_path: Path) -> None:
    """By its short name alone, from a folder that has nothing to do with it: with all modules, and the mark that they are typed."""
    require_java()
    wheel, site = built(tmp_path), tmp_path / "site"
    packed = set(ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT / "spark")) for path in (ROOT / "spark" / "pyspark_virtuallog").rglob("*.py")}
    run(
        tmp_path,
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(site),
        str(wheel),
    )

    assert modules - packed == set()
    assert "pyspark_virtuallog/py.typed" in packed
    (tmp_path / "unreachable.toml").write_text('[[node]]\nid = 1\naddress = "127.0.0.1:9"\n')
    found, said = run(
        tmp_path, sys.executable, "-c", READ, PYTHONPATH=str(site), PYSPARK_PYTHON=sys.executable
    ).splitlines()
    assert Path(found).is_relative_to(site)
    assert said.startswith("no node of the cluster can be used")
