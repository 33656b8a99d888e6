"""The shape of the source tree, as far as ruff, mypy and import-linter do not hold it already."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import zipfile
from fnmatch import fnmatch
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.source_tree import ROOT, SHIPPED, attributes, imported_roots, modules, parsed, pyproject, requirement_name

HIDDEN_INPUTS = (
    "time.*", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today", "datetime.now",
    "random.*", "secrets.*", "uuid.uuid1", "uuid.uuid4", "os.urandom", "asyncio.*",
)  # fmt: skip
"""Time and chance come in through ports: what reaches for them by itself cannot be simulated."""
ALLOWED_INPUTS = ("random.Random", "random.SystemRandom", "time.struct_time")

THREADS = ("threading.*", "concurrent.*", "multiprocessing.*", "trio.to_thread", "trio.from_thread")

ADAPTERS = {
    Path(name)
    for name in (
        "virtuallog/blocking.py",
        "virtuallog/clock.py",
        "virtuallog/kazoo_bridge.py",
        "virtuallog/key_values.py",
        "virtuallog/worker.py",
        "loglets/archive/fsspec_files.py",
        "pyspark_virtuallog/running.py",
        "simulation/fleet.py",
    )
}
"""Where the real clock, threads and processes enter."""

UNNAMED = {"pandas", "pytest-trio", "pytest-xdist", "setuptools"}
"""Used without an import statement: by PySpark, by pytest, by a subprocess."""

COMMANDS = Path("server/cli")
"""What runs in a terminal and in no node may wait for that terminal in a thread."""


def test_packages_named_in_pyproject_are_the_folders_on_disk() -> None:
    """A new folder is shipped, or it is a mistake; a removed one is no longer named."""
    folders = {str(path.parent).replace("/", ".") for path in modules(*SHIPPED)}

    assert set(pyproject()["tool"]["setuptools"]["packages"]) == folders


@pytest.mark.slow
def test_wheel_holds_our_import_roots_and_nothing_else(tmp_path: Path) -> None:
    """Every module, schema, template and py.typed of the five roots is shipped; tests and documents are not."""
    tree = tmp_path / "tree"
    for folder in SHIPPED:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)

    build = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=tree, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    (wheel,) = tmp_path.glob("*.whl")
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    wanted = ("*.py", "*.capnp", "py.typed", "*.html", "*.css", "*.js")
    assert shipped == {
        str(path.relative_to(tree)) for folder in SHIPPED for glob in wanted for path in (tree / folder).rglob(glob)
    }
    assert {f"{folder}/py.typed" for folder in SHIPPED} <= shipped


def test_a_user_of_the_library_never_imports_the_server() -> None:
    """`server` is a common name: beside a user's own server.py, `import virtuallog` must still mean ours."""
    script = "import sys, virtuallog, loglets, metastore; print([name for name in sys.modules if name == 'server'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("folders", [SHIPPED, (*SHIPPED, "tests")], ids=["product", "tests"])
def test_dependencies_are_what_is_imported(folders: tuple[str, ...]) -> None:
    """Nothing rides on a dependency of a dependency, and a dependency arrives with its first use."""
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
    """Commands and kinds are found by name at run time: a typing error would only show there."""
    project = pyproject()["project"]
    targets = {**project["scripts"], **{k: v for group in project["entry-points"].values() for k, v in group.items()}}
    for target in targets.values():
        module, _, name = target.partition(":")
        path = Path(*module.split("."))
        path = path / "__init__.py" if (ROOT / path).is_dir() else path.with_suffix(".py")
        names = {node.name for node in parsed(path).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        names |= {a.asname or a.name for n in parsed(path).body if isinstance(n, ast.ImportFrom) for a in n.names}

        assert name in names, f"{target} is not in {path}"


@pytest.mark.parametrize("module", modules(*SHIPPED, "tests"), ids=str)
def test_module_opens_with_a_docstring(module: Path) -> None:
    """What it is and what its rules are; only an empty __init__.py needs no words."""
    assert not parsed(module).body or ast.get_docstring(parsed(module))


@pytest.mark.parametrize("module", modules(*SHIPPED), ids=str)
def test_a_crash_point_is_used_where_it_is_made(module: Path) -> None:
    """One that nothing reaches is a promise of the simulator that it cannot keep."""
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

    assert made <= used


@pytest.mark.parametrize("module", modules("tests"), ids=str)
def test_tests_say_what_should_happen(module: Path) -> None:
    """A test's docstring is its claim."""
    functions = [n for n in ast.walk(parsed(module)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]

    assert [f.name for f in functions if f.name.startswith("test_") and not ast.get_docstring(f)] == []


@pytest.mark.parametrize("module", [m for m in modules(*SHIPPED) if m not in ADAPTERS], ids=str)
def test_no_hidden_inputs(module: Path) -> None:
    """No clock, no chance and no thread but through a port, so that the simulator sees all there is."""
    banned = HIDDEN_INPUTS if module.is_relative_to(COMMANDS) else (*HIDDEN_INPUTS, *THREADS)
    found = [
        f"{module}:{line} {name}"
        for line, name in attributes(module)
        if any(fnmatch(name, pattern) for pattern in banned) and name not in ALLOWED_INPUTS
    ]

    assert found == []


@pytest.mark.parametrize("module", modules(*SHIPPED), ids=str)
def test_untrusted_bytes_meet_errors_and_not_assertions(module: Path) -> None:
    """Bytes from a network or a disk are never asserted on: `python -O` and an attacker would both profit."""
    functions = [n for n in ast.walk(parsed(module)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    asserts = [
        f"{module}:{node.lineno}"
        for function in functions
        if function.name.endswith("_untrusted")
        for node in ast.walk(function)
        if isinstance(node, ast.Assert)
    ]

    assert asserts == []


def test_schemas_are_loaded_in_one_place() -> None:
    """A schema that does not parse aborts the process, so what is loaded is ours, and from one place."""
    callers = [m for m in modules(*SHIPPED) if any(name == "capnp.load" for _, name in attributes(m))]

    assert callers == [Path("virtuallog/rpc/schema.py")]
