"""The page of states and their transitions, drawn from the tables of the cores."""

from __future__ import annotations

from typing import Any, Final

from docs._generate.source import WRITTEN, table
from virtuallog_loglets.raft.core.transitions import FLOWS, ROLES, RUN_STATES, Transitions

TABLES: Final[dict[str, Transitions[Any]]] = {
    "Role of a raft replica": ROLES,
    "State of a raft replica since its start": RUN_STATES,
    "Flow of a raft leader's records to one peer": FLOWS,
}
HEAD: Final = """# States and transitions

The tables are those that the code checks each change against; a change that is in none ends the role of the node. A test sees each of
them happen. A number stands for a cause, below the picture.

"""


def page() -> str:
    """A picture and a list of causes for each table."""
    return WRITTEN + HEAD + "\n".join(_section(title, found) for title, found in TABLES.items())


def _section(title: str, found: Transitions[Any]) -> str:
    causes = list(dict.fromkeys(found.causes.values()))
    lines = [f"    [*] --> {found.start.name}"]
    lines += [
        f"    {before.name} --> {after.name}: {causes.index(cause) + 1}"
        for (before, after), cause in found.causes.items()
    ]
    picture = "\n".join(("```mermaid", "stateDiagram-v2", *lines, "```"))
    rows = [(str(number), cause) for number, cause in enumerate(causes, start=1)]
    return f"## {title}\n\n{picture}\n\n{table(('number', 'cause'), rows)}\n"
