"""Loading of the Cap'n Proto schemas that ship with our packages. The only caller of `capnp.load`.

A schema that does not parse aborts the process inside capnp, so schemas are only ever our own
files.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

import capnp

capnp.remove_import_hook()

_PATHS: Final[dict[int, Path]] = {}
"""Schema files that were loaded, by the id in their first line."""


@cache
def load(package: str, name: str) -> Any:
    """Load the schema file `name` that ships in `package`, once.

    Imports are looked up beside pycapnp's own schemas, so that a schema can say `import
    "/capnp/rpc.capnp"`.
    """
    with as_file(files(package) / name) as path:
        return load_file(path)


@cache
def load_file(path: Path) -> Any:
    """Load a schema file from any path, such as one beside the module of a third-party loglet."""
    module = capnp.load(str(path), imports=[str(Path(capnp.__file__).parent.parent)])
    _PATHS[module.schema.node.id] = path
    return module


def path_of(declared: Any) -> Path:
    """The loaded file that declares an interface or a struct, given as pycapnp's object for it."""
    return _PATHS[declared.schema.node.scopeId]
