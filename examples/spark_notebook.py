# %% [markdown]
# # The log as a table of Spark
# Step through the cells in VS Code or Jupyter (with jupytext), or run all of them: `python examples/spark_notebook.py`. It needs
# `pip install "virtuallog[spark,archive]"` and Java 17 or newer. What each option means is in docs/howto/spark.md.

# %% A folder for everything, and how much is written
import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

ROWS = int(os.environ.get("ROWS", "100000"))
FOLDER = Path(tempfile.mkdtemp(prefix="virtuallog-spark-"))
CLUSTER = FOLDER / "cluster" / "cluster.toml"
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # tasks run in this Python, which has virtuallog

# %% A cluster of three nodes on this machine, which ends with this program
PROGRAM = shutil.which("virtuallog", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") or "virtuallog"


def virtuallog(*arguments: object) -> str:
    """A command of `virtuallog`, as in a terminal; returns what it prints."""
    words = [PROGRAM, *map(str, arguments), "--cluster", str(CLUSTER)]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


base_port = os.environ.get("BASE_PORT", "7001")
nodes = subprocess.Popen([PROGRAM, "up", "--nodes", "3", "--data", str(FOLDER / "cluster"), "--base-port", base_port])
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
atexit.register(nodes.wait)
atexit.register(nodes.terminate)
while not CLUSTER.exists():
    assert nodes.poll() is None, "the cluster did not start"
    time.sleep(0.1)

# %% Spark in this process, on two cores
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
for setting, value in {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.local.dir": str(FOLDER / "spark"),
    "spark.sql.warehouse.dir": str(FOLDER / "warehouse"),
}.items():
    builder = builder.config(setting, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

# Spark finds the format by its short name where virtuallog is installed; from a checkout it is told once.
from pyspark_virtuallog import DefaultSource  # noqa: E402

spark.dataSource.register(DefaultSource)


# %% Write: each row of one column becomes an entry of the log
def write(first: int) -> None:
    """Half of the rows, from this number on, as one job: all of them become visible at once, each of them once."""
    rows = spark.range(first, first + ROWS // 2, numPartitions=2).selectExpr(
        "to_json(struct(id, id % 7 AS shop, id * 3 % 100 AS amount)) AS value"
    )
    job = rows.write.format("virtuallog").options(txnAppId="notebook", txnVersion=str(first))
    job.mode("append").save(str(CLUSTER))


write(0)

# %% The log goes on with another protocol, under its users
virtuallog("reconfigure", "--to", "paxos")
write(ROWS // 2)
write(ROWS // 2)  # run again by mistake: this version is committed, so it does not count twice

# %% Read: one row for each entry, and for each gap
log = spark.read.format("virtuallog").load(str(CLUSTER))
log.printSchema()
log.where("gap IS NULL").select("position", "time", "segment", "loglet", "size").orderBy("position").show(3)

# %% SQL: what each segment of the log holds
log.createOrReplaceTempView("log")
spark.sql(
    """
    SELECT segment, loglet, count(payload) AS entries, sum(size) AS bytes, min(position) AS first, max(position) AS last
    FROM log WHERE gap IS NULL GROUP BY segment, loglet ORDER BY first
    """
).show()

# %% Only what has been committed: no rows of jobs that failed or ran twice, and no markers
committed = spark.read.format("virtuallog").option("isolationLevel", "read_committed").load(str(CLUSTER))
sales = committed.selectExpr("from_json(cast(payload AS STRING), 'id LONG, shop INT, amount INT') AS sale")
sales.selectExpr("sale.shop", "sale.amount").groupBy("shop").sum("amount").orderBy("shop").show()
assert sales.count() == sales.select("sale.id").distinct().count() == ROWS // 2 * 2

# %% A stream to Parquet: everything that is there now, then it ends
stream = spark.readStream.format("virtuallog").options(cluster=str(CLUSTER), startingOffsets="earliest")


def copy_what_is_new() -> int:
    """Run the query until it has caught up; returns how many rows the table has then."""
    entries = stream.load().where("gap IS NULL").select("position", "time", "payload")
    query = (
        entries.writeStream.format("parquet")
        .option("checkpointLocation", str(FOLDER / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(FOLDER / "table"))
    )
    query.awaitTermination()
    return spark.read.parquet(str(FOLDER / "table")).count()


before = copy_what_is_new()
write(ROWS)
after = copy_what_is_new()  # goes on where its checkpoint says
print(f"the table has {before} rows, and then {after}")
assert after == before + ROWS // 2 + 1  # with the marker of the job, which an uncommitted read shows, too

# %% Archive: closed segments become Parquet files, and the log reads on from there
print(
    virtuallog("spark", "archive", "all", "--to", f"file://{FOLDER / 'archives'}", "--grace", 5, "--master", "local[2]")
)
archived = spark.read.format("virtuallog").load(str(CLUSTER))
archived.where("gap IS NULL").groupBy("segment", "loglet").count().show()

# %% Audit: is everything as it should be?
print(virtuallog("spark", "audit", "--page", FOLDER / "audit.html", "--master", "local[2]"))
print(f"{(FOLDER / 'audit.html').stat().st_size} bytes of a page with pictures")

# %% The end: Spark stops, then the nodes do, and all of their data is removed
spark.stop()
