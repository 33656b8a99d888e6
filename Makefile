# Everything runs in .venv, which make builds by itself from the machine's Python, 3.11 or newer. `make demo` installs the base
# package only; the other targets add the extras, the tests and their tools.
#
#   make demo     three nodes on this machine: a checked workload while the log underneath is swapped live
#   make quick    a minute of tests: the cores, the scenarios of the papers, a seed of each scenario of the simulator
#   make test     verify, then all tests but the long ones; what .ci/run calls
#   make long     the long tests: hundreds of seeds, every kind swapped for every other, Spark jobs, real clusters that are hurt
#   make verify   lint, format, types, import rules; changes nothing
#   make fix      lets ruff fix what it can
#   make sim      soaks the simulator over many seeds, with a summary; `make sim SEED=7` replays one, `SEEDS=1..99`
#                 or `MINUTES=30` say how many, `SCENARIO=all` which story, ARGUMENTS="--faults crash" any other option
#   make explore  every state of the pure cores within bounds, the large configurations too; some half an hour, half a GB; MINUTES=2 for
#                 each, CONFIGURATIONS="raft-fig8 metastore-*" for some
#   make hostile  a million mutated frames and every flood against three nodes, then ZooKeeper's ports; FRAMES=100000 for fewer
#   make bench    measures appends on three local processes
#   make paxos    the paxos loglet beside the native one and PySyncObj, then kills of its coordinator, ten minutes; tables go to OUT
#   make swaps    every kind of loglet swapped for every other (with ZooKeeper, if Debian's is here), the Delos experiment, stripes
#                 and a model of many; a quarter of an hour; tables and pictures go to OUT, `make swaps FILL=1` puts them into docs/
#   make zookeeper  the database beside ZooKeeper; six minutes; FILL=1 as above
#   make rate     latencies of writes that are due at 2,000 and 10,000 a second, beside etcd and ZooKeeper; 40 minutes; FILL=1 as above
#   make kazoo    kazoo's own test suite against three servers of the database (needs kazoo_suite.py, in PEERS); some ten minutes;
#                 `make kazoo TESTS=kazoo.tests.test_lock` for a part
#   make chaos    swaps, kills, partitions (needs root) and a comparison with other systems (scripts in PEERS), a quarter of
#                 an hour; one of them: make swap, kill, hosts, peers; pictures and tables go to OUT
#   make churn    5,000,000 writes over 10,000 znodes, with a server that is wiped in the middle; `make churn FILL=1` puts it into docs/;
#                 ARGUMENTS="--writes 200000 --loglet paxos" for another one
#   make clients  ZooKeeper's own clients and software that lives on it, through swaps and kills, beside real ZooKeeper; needs Java, gcc, Go and
#                 npm, or says what is left out; `make clients CLIENTS=tests/clients/curator` for a part
#   make zelos    20,000 operations of ZooKeeper's clients on three processes that are killed, stopped and swapped, judged; OPERATIONS=N
#   make spark    the long tests of the pipeline on Spark: drivers that are killed, real servers that are compacted, restored, audited;
#                 some minutes, needs Java
#   make spark-bench  the log as a table of Spark beside a plain reader: 10,000,000 entries, live and archived; some ten minutes, 5 GB of
#                 disk, needs Java; FILL=1 as above, ARGUMENTS="--entries 1000000" for fewer
#   make backups   a backup of 10,000,000 writes beside `cp`, RPO, RTO, restores beside replays; half an hour
#   make spark-compact  a log is archived, compacted and trimmed under load, by its commands, some of them killed; a wiped server begins with
#                 what was compacted; some six minutes, needs Java; FILL=1 as above
#   make spark-stream  2,000,000 entries of a live log to Parquet by a stream of Spark, whose driver is killed three times, and a node once; needs Java,
#                 ten minutes; `make spark-stream FILL=1` puts the tables into docs/, ARGUMENTS="--entries 100000 --seconds 60" for a smaller one
#   make console-pictures  pictures of the console for docs/howto, from a cluster of its own; needs Chromium
#   make docs     writes the generated pages of docs/reference, then builds the site in docs/_build/html; a dead link is an error
#   make setup    builds .venv and stops

BIN := .venv/bin
FRAMES ?= 1000000
OUT ?= measured
PEERS ?= ../shared/peers
# Without SEEDS or MINUTES: a quarter of an hour on two cores.
SEEDS ?= $(if $(MINUTES),,1..2000)
SCENARIO ?= cluster

.DEFAULT_GOAL := help
.PHONY: help demo docs quick test backups registrar masters long verify fix sim explore hostile bench paxos swaps kazoo chaos swap kill hosts peers churn zookeeper rate zelos clients spark spark-bench spark-compact spark-stream console-pictures setup

help:
	@sed -n 's/^#   //p' Makefile

# Installed again when pyproject.toml is newer than these empty files.
.venv/base: pyproject.toml .ci/setup
	.ci/setup base
	@touch $@

.venv/installed: pyproject.toml .ci/setup
	.ci/setup
	@touch .venv/base $@

setup: .venv/installed

demo: .venv/base
	$(BIN)/virtuallog demo

verify: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Tests differ much in length; loadgroup deals them out one by one. The whole run has no time limit, as a busy machine needs longer; a
# single test has one (pyproject.toml). The slowest tests are shown at the end.
test: verify
	$(BIN)/pytest --numprocesses=2 --dist=loadgroup --durations=20 -m "not long"

QUICK := tests/virtuallog/contract tests/virtuallog/exactly_once tests/virtuallog/reconfiguration tests/metastore \
    tests/loglets/native/core tests/loglets/paxos/core tests/loglets/striped/test_core.py tests/loglets/wal tests/database/engines \
    tests/database/tree tests/simulation/test_scenarios.py
quick: setup
	$(BIN)/pytest --numprocesses=2 --dist=loadgroup -m "not long and not slow and not processes" $(QUICK)

long: setup
	$(BIN)/pytest --numprocesses=2 --dist=loadgroup --durations=20 -m long

fix: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup
	$(BIN)/python -m docs._generate
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html -d docs/_build/trees docs docs/_build/html
	@echo docs/_build/html/index.html

sim: setup
	$(BIN)/virtuallog simulate --scenario $(SCENARIO) \
	    $(if $(SEED),--seed $(SEED),$(if $(SEEDS),--seeds $(SEEDS)) $(if $(MINUTES),--minutes $(MINUTES))) $(ARGUMENTS)

explore: setup
	$(BIN)/virtuallog explore $(or $(CONFIGURATIONS),--all) $(if $(MINUTES),--minutes $(MINUTES))

hostile: setup
	$(BIN)/python -m tests.hostile --frames $(FRAMES)

bench: setup
	$(BIN)/virtuallog bench append --outstanding 1,64,256 --size 100 --seconds 5

paxos: setup | $(OUT)
	$(BIN)/python -m virtuallog_lab.experiments.appends.append --loglet paxos $(ARGUMENTS) > $(OUT)/append-paxos.md
	@cat $(OUT)/append-paxos.md
	$(BIN)/python -m virtuallog_lab.experiments.failover.kill --loglet paxos --sequencers 20 --blackouts 5 --picture $(OUT)/kill-paxos.png --markdown \
	    > $(OUT)/kill-paxos.md
	@cat $(OUT)/kill-paxos.md

OPERATIONS ?= 20000
zelos: setup
	$(BIN)/python -m tests.interop --operations $(OPERATIONS)

# Ends with a table of what clients saw; docs/results/clients.md has one.
CLIENTS ?= tests/clients
clients: setup
	$(BIN)/pytest -m long -o faulthandler_timeout=600 $(CLIENTS)

spark: setup
	$(BIN)/pytest -m long tests/spark tests/lab/test_spark_compact.py

SWAPS ?= 20
swaps: setup | $(OUT)
	$(BIN)/virtuallog bench reconfigure --swaps $(SWAPS) --window 0.15 --picture $(OUT)/swaps.png --page $(OUT)/swaps.html --markdown > $(OUT)/swaps.md
	$(BIN)/python -m virtuallog_lab.experiments.swaps.delos --picture $(OUT)/delos.png --markdown > $(OUT)/delos.md
	$(BIN)/python -m virtuallog_lab.experiments.appends.append --loglet striped --outstanding 256 --rounds 3 > $(OUT)/append-striped.md
	$(BIN)/python -m virtuallog_lab.experiments.stripes --picture $(OUT)/stripes.png --markdown > $(OUT)/stripes.md
	@cat $(OUT)/swaps.md $(OUT)/delos.md $(OUT)/append-striped.md $(OUT)/stripes.md
	$(if $(FILL),$(BIN)/python -m virtuallog_lab.experiments.fill_documents $(OUT) docs/results/swaps.md docs/results/performance.md)

TESTS ?= kazoo.tests
kazoo: setup | $(OUT)
	$(BIN)/python -m tests.interop.kazoo_suite --peers-dir $(PEERS) --tests $(TESTS) --results $(OUT)/kazoo.xml

$(OUT):
	mkdir -p $@

# The parts of docs/results/measurements.md. A table that says that the history was wrong ends `make chaos`.
chaos: swap kill hosts peers

spark-stream: setup | $(OUT)
	$(BIN)/python -m virtuallog_lab.experiments.spark_stream.stream --markdown $(ARGUMENTS) > $(OUT)/spark-stream.md
	@cat $(OUT)/spark-stream.md
	$(if $(FILL),$(BIN)/python -m virtuallog_lab.experiments.fill_documents $(OUT) docs/results/measurements.md)

swap: MODULE := swaps.swap
kill: MODULE := failover.kill
hosts: MODULE := failover.hosts
churn: MODULE := churn.churn
swap kill hosts churn: setup | $(OUT)
	$(BIN)/python -m virtuallog_lab.experiments.$(MODULE) --picture $(OUT)/$@.png --markdown $(ARGUMENTS) > $(OUT)/$@.md
	@cat $(OUT)/$@.md
	$(if $(FILL),$(BIN)/python -m virtuallog_lab.experiments.fill_documents $(OUT) docs/results/measurements.md)

# The registrar at the size of large clusters, and failovers of examples/master.py; docs/results/measurements.md.
registrar: setup | $(OUT)
	$(BIN)/python -m virtuallog_lab.experiments.registrar.registry --picture $(OUT)/registrar.png --markdown $(ARGUMENTS) > $(OUT)/registrar.md
	@cat $(OUT)/registrar.md

masters: setup | $(OUT)
	$(BIN)/python -m virtuallog_lab.experiments.registrar.masters --failovers 200 --markdown $(ARGUMENTS) > $(OUT)/masters.md
	@cat $(OUT)/masters.md

backups: setup | $(OUT)
	$(BIN)/python -m virtuallog_lab.experiments.backups.backups --markdown $(ARGUMENTS) > $(OUT)/backups.md
	@cat $(OUT)/backups.md
	$(if $(FILL),$(BIN)/python -m virtuallog_lab.experiments.fill_documents $(OUT) docs/results/measurements.md)

spark-bench: setup | $(OUT)
	$(BIN)/python -m virtuallog_lab.experiments.spark_scan.scan --picture $(OUT)/spark.png --markdown $(ARGUMENTS) > $(OUT)/spark.md
	@cat $(OUT)/spark.md
	$(if $(FILL),$(BIN)/python -m virtuallog_lab.experiments.fill_documents $(OUT) docs/results/measurements.md)

spark-compact: setup | $(OUT)
	$(BIN)/python -m virtuallog_lab.experiments.spark_compact.compact --markdown $(ARGUMENTS) > $(OUT)/spark-compact.md
	@cat $(OUT)/spark-compact.md
	$(if $(FILL),$(BIN)/python -m virtuallog_lab.experiments.fill_documents $(OUT) docs/results/measurements.md)

# The database beside ZooKeeper, which has to be here; docs/results/performance.md. Needs the scripts in PEERS.
zookeeper: setup | $(OUT)
	$(BIN)/python -m virtuallog_lab.experiments.database.zookeeper_comparison --peers-dir $(PEERS) --picture $(OUT)/beside-zookeeper.png --markdown $(ARGUMENTS) > $(OUT)/beside-zookeeper.md
	@cat $(OUT)/beside-zookeeper.md
	$(if $(FILL),$(BIN)/python -m virtuallog_lab.experiments.fill_documents $(OUT) docs/results/performance.md)

# Latency in an open loop; docs/results/performance.md. etcd and ZooKeeper need the scripts in PEERS.
rate: setup | $(OUT)
	$(BIN)/python -m virtuallog_lab.experiments.fixed_rate.fixed_rate $(if $(wildcard $(PEERS)),--peers-dir $(PEERS)) --markdown $(ARGUMENTS) > $(OUT)/fixed-rate.md
	@cat $(OUT)/fixed-rate.md
	$(if $(FILL),$(BIN)/python -m virtuallog_lab.experiments.fill_documents $(OUT) docs/results/performance.md)

peers: setup | $(OUT)
	$(BIN)/python -m virtuallog_lab.experiments.contestants.peers $(if $(wildcard $(PEERS)),--peers-dir $(PEERS)) --markdown $(ARGUMENTS) > $(OUT)/$@.md
	@cat $(OUT)/$@.md

console-pictures: setup
	$(BIN)/python -m tests.console.pages.pictures
