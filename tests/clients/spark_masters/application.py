"""An application of Spark: one small job after the other, until a file appears. Exit code 1: a result was wrong.

Arguments: URL of the masters, file for the time of each job's end, file that ends the program.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

NUMBERS: Final = 1000
PARTS: Final = 4
RESULT: Final = sum(number * number for number in range(NUMBERS))


def main(url: str, progress: Path, stop: Path) -> int:
    """Run jobs; the exit code."""
    builder = SparkSession.builder.appName("story").master(url)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    with progress.open("w") as ends:
        while not stop.exists():
            found = session.sparkContext.parallelize(range(NUMBERS), PARTS).map(lambda number: number * number).sum()
            if found != RESULT:
                return 1
            print(time.monotonic(), file=ends, flush=True)
    session.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
