"""Viewer: the caller for whom a view is made, and what each role sees.

| | client | admin |
|---|---|---|
| chain, nodes, holds, live figures | all: nodes answer these questions to clients | all |
| entries of programs | all: a client may read the log | all |
| audit records of actions | all: a client may read the log | all |
| entries of a database | operations and paths, without values: the ACLs of that time are not known | values, too |
| znodes | stats of all; values, ACLs and children that ZooKeeper's `world` may read | all |
| znodes of the past, and their changes | changes of all; values and ACLs that `world` could read then | all |
| sessions, counts of watches | none | all |
| values below masked paths | none | none |
| passwords of sessions, hashes in ACLs | none | none |

A search looks at no more than its viewer sees. What an admin sees also takes the certificate of an admin for the console: servers ignore
`as_admin` in calls of a client.
"""

from __future__ import annotations

import attrs

from virtuallog.contract.caller_roles import Role
from virtuallog_console.views.masks import NO_MASKS, Masks

MASKED = "masked by a path pattern of this console"
NEEDS_ADMIN = "needs the role admin"


@attrs.frozen(kw_only=True)
class Viewer:
    """Role of the caller, and masks of the console."""

    role: Role
    masks: Masks = NO_MASKS

    @property
    def is_admin(self) -> bool:
        return self.role >= Role.ADMIN
