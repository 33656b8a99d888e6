"""Rules for the source tree that ruff, mypy and import-linter do not check."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tarfile
import zipfile
from fnmatch import fnmatch
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.source_tree import (
    ROOT,
    SHIPPED,
    attributes,
    functions,
    imported_roots,
    modules,
    parsed,
    path_of,
    pyproject,
    requirement_name,
)

HIDDEN_INPUTS = (
    "time.*", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today", "datetime.now",
    "random.*", "secrets.*", "uuid.uuid1", "uuid.uuid4", "os.urandom", "asyncio.*",
)  # fmt: skip
"""Time and chance come in through ports: code that reads them directly cannot be simulated."""
ALLOWED_INPUTS = ("random.Random", "random.SystemRandom", "time.struct_time")

THREADS = ("threading.*", "concurrent.*", "multiprocessing.*", "trio.to_thread", "trio.from_thread")

ADAPTERS = {
    Path(name)
    for name in (
        "virtuallog/aio/grouped_appends.py",
        "virtuallog/aio/log.py",
        "virtuallog/blocking.py",
        "virtuallog/runtime/bridge/blocks.py",
        "virtuallog/runtime/bridge/asyncio_bridge.py",
        "virtuallog/runtime/bridge/calls.py",
        "virtuallog/runtime/bridge/shared_call.py",
        "virtuallog/runtime/bridge/slots.py",
        "virtuallog/runtime/clock.py",
        "virtuallog/runtime/loop_thread.py",
        "virtuallog/runtime/zookeeper_client.py",
        "virtuallog/runtime/rocks_map.py",
        "virtuallog/runtime/sync_worker.py",
        "virtuallog/runtime/worker.py",
        "loglets/virtuallog_loglets/archive/drivers/fsspec_files.py",
        "spark/pyspark_virtuallog/task_runner.py",
        "lab/virtuallog_lab/floor/disk.py",
        "lab/virtuallog_lab/trace/tracer.py",
        "simulation/virtuallog_simulation/fleet.py",
    )
}
"""Modules that may use the real clock, threads and processes."""

UNNAMED = {
    "check-wheel-contents",
    "fastapi",
    "kubernetes-validate",
    "moto",
    "pandas",
    "pipx",
    "pytest-timeout",
    "pytest-trio",
    "pytest-xdist",
    "s3fs",
    "setuptools",
}
"""Distributions used without an import statement: by PySpark, by pytest, by fsspec, by a subprocess, by an example."""

EXPERIMENTS = Path("lab/virtuallog_lab/experiments")
"""Programs that measure the real machine, and are never simulated."""

COMMANDS = Path("server/virtuallog_server/cli")
"""Code that runs in a terminal and never in a node may wait for that terminal in a thread."""


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, built from the packages and the files that name them."""
    folder = tmp_path_factory.mktemp("sdist")
    tree = folder / "tree"
    for package in (*SHIPPED, "share"):
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "tests").mkdir()
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "tests/test_structure.py"):
        shutil.copy(ROOT / name, tree / name)
    return _built(tree, "build_sdist", folder)


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution alone."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    return _built(tree, "build_wheel", folder)


def _built(tree: Path, hook: str, folder: Path) -> Path:
    """The distribution that setuptools builds from a source tree."""
    build = f"import sys; from setuptools import build_meta; build_meta.{hook}(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", build, str(folder)], cwd=tree, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    (made,) = (path for path in folder.iterdir() if path.is_file())
    return made


@pytest.mark.slow
@pytest.mark.xdist_group("wheel")
def test_wheel_holds_our_import_roots_and_nothing_else(wheel: Path) -> None:
    """Every module, schema, template and py.typed of our packages is shipped, also by way of the sdist, and what shells and `man` look for;
    tests and documents are not."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    shared = {name.partition(".data/data/")[2] for name in names if ".data/" in name}
    shipped = {name for name in names if ".data/" not in name}

    wanted = ("*.py", "*.capnp", "py.typed", "*.html", "*.css", "*.js")
    packages = [ROOT / package for package in SHIPPED]
    assert shipped == {
        str(path.relative_to(package.parent)) for package in packages for glob in wanted for path in package.rglob(glob)
    }
    assert {f"{package.name}/py.typed" for package in packages} <= shipped
    assert shared == {str(path.relative_to(ROOT)) for path in (ROOT / "share").rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.xdist_group("wheel")
def test_sdist_holds_no_tests(sdist: Path) -> None:
    """A part of the tests would run nowhere."""
    with tarfile.open(sdist) as archive:
        assert [name for name in archive.getnames() if "tests" in Path(name).parts[1:2]] == []


@pytest.mark.slow
@pytest.mark.xdist_group("wheel")
def test_wheel_has_no_common_fault(wheel: Path) -> None:
    """check-wheel-contents knows many: stray files, missing packages, duplicates, names that clash."""
    if find_spec("check_wheel_contents") is None:
        pytest.skip("check-wheel-contents is not installed")
    command = [sys.executable, "-m", "check_wheel_contents", "--config", str(ROOT / "pyproject.toml"), str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_user_of_the_library_never_imports_the_server() -> None:
    """A client of a log loads no command line, no console and no database."""
    script = (
        "import sys, virtuallog.aio, virtuallog.connect, virtuallog_loglets, virtuallog_metastore;"
        " print([name for name in sys.modules if name in ('virtuallog_server', 'virtuallog_database', 'rocksdict')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


DOORS = (
    "virtuallog", "virtuallog.aio", "virtuallog.aio.embedded", "virtuallog.aio.replica", "virtuallog.aio.state", "virtuallog.aio.table",
    "virtuallog.embedded", "virtuallog.replica", "virtuallog.state", "virtuallog.table",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_a_front_door_is_imported_first(door: str) -> None:
    """A program may import any of them alone, and before all others."""
    done = subprocess.run([sys.executable, "-c", f"import {door}"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_files_of_a_user_do_not_collide_with_ours(tmp_path: Path) -> None:
    """A script may have a `server.py`, a `database/` or a `simulation.py` beside it; our packages do not import them."""
    for name in ("server.py", "simulation.py", "loglets.py", "metastore.py", "database/__init__.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("raise AssertionError('a file of the user was imported')")
    script = "import virtuallog.embedded, virtuallog.replica, virtuallog_simulation.cli"
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folders", [SHIPPED, (*SHIPPED, "tests")], ids=["product", "tests"])
def test_dependencies_are_what_is_imported(folders: tuple[str, ...]) -> None:
    """Each imported distribution is declared, not left to a dependency of another; each declared one is used."""
    project = pyproject()["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    declared = {requirement_name(line) for line in (*project["dependencies"], *extras)}
    declared |= {requirement_name(line) for line in pyproject()["dependency-groups"]["test"] if "tests" in folders}
    distributions = packages_distributions()
    imported = {
        distribution.lower()
        for root in {root for module in modules(*folders) for root in imported_roots(module)}
        for distribution in distributions.get(root, [])
    }

    assert imported - {"virtuallog"} == declared - UNNAMED


def test_entry_points_name_things_that_exist() -> None:
    """Commands and kinds are found by name at run time, so a typing error would only show there."""
    project = pyproject()["project"]
    targets = {**project["scripts"], **{k: v for group in project["entry-points"].values() for k, v in group.items()}}
    for target in targets.values():
        module, _, name = target.partition(":")
        path = path_of(module)
        names = {node.name for node in parsed(path).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        names |= {a.asname or a.name for n in parsed(path).body if isinstance(n, ast.ImportFrom) for a in n.names}

        assert name in names, f"{target} is not in {path}"


def test_modules_open_with_a_docstring() -> None:
    """Each module says what it is for; only an empty __init__.py needs no docstring."""
    trees = {module: parsed(module) for module in modules(*SHIPPED, "tests")}

    assert [str(module) for module, tree in trees.items() if tree.body and not ast.get_docstring(tree)] == []


def test_a_crash_point_is_used_where_it_is_made() -> None:
    """The simulator promises to crash at each point, so the code must reach each."""
    assert [f"{module}: {name}" for module in modules(*SHIPPED) for name in _unused_crash_points(module)] == []


def _unused_crash_points(module: Path) -> set[str]:
    tree = parsed(module)
    made = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if isinstance(node.value.func, ast.Name) and node.value.func.id == "CrashPoint"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}

    return made - used


def test_tests_say_what_should_happen() -> None:
    """A test's docstring is its claim."""
    assert [
        f"{module}: {function.name}"
        for module in modules("tests")
        for function in functions(module)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ] == []


def test_no_hidden_inputs() -> None:
    """Clock, chance and threads come through ports only, so that the simulator controls them all."""
    found = [
        f"{module}:{line} {name}"
        for module in modules(*SHIPPED)
        if module not in ADAPTERS and not module.is_relative_to(EXPERIMENTS)
        for line, name in attributes(module)
        if any(fnmatch(name, pattern) for pattern in _banned(module)) and name not in ALLOWED_INPUTS
    ]

    assert found == []


def _banned(module: Path) -> tuple[str, ...]:
    return HIDDEN_INPUTS if module.is_relative_to(COMMANDS) else (*HIDDEN_INPUTS, *THREADS)


def test_untrusted_bytes_meet_errors_and_not_assertions() -> None:
    """Bytes from a network or a disk are never asserted on: `python -O` drops assertions, and an attacker could end a node with one."""
    asserts = [
        f"{module}:{node.lineno}"
        for module in modules(*SHIPPED)
        for function in functions(module)
        if function.name.endswith("_untrusted")
        for node in ast.walk(function)
        if isinstance(node, ast.Assert)
    ]

    assert asserts == []


def test_schemas_are_loaded_in_one_place() -> None:
    """A schema that does not parse aborts the process. So only ours are loaded, in one place."""
    callers = [m for m in modules(*SHIPPED) if any(name == "capnp.load" for _, name in attributes(m))]

    assert callers == [Path("virtuallog/contract/schema.py")]
