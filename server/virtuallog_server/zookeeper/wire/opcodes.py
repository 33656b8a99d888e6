"""Types of requests, as numbers on the wire."""

from __future__ import annotations

import enum
from typing import Final


class OpCode(enum.IntEnum):
    """ZooKeeper's own numbers."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CLOSE_SESSION = -11


ERROR_ENTRY: Final = -1
"""Type of an entry in the reply of a multi that holds an error, and of the end of a multi, both ways."""

XID_EVENT: Final = -1
XID_PING: Final = -2
XID_AUTH: Final = -4
XID_SET_WATCHES: Final = -8
"""Numbers of requests outside of a client's own count. They are answered in their order like any other."""
