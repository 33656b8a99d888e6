"""Bounded cache of a pure function: results for keys used before, if they are short.

Clients choose the keys. So the cache is bounded in bytes; a bound on the number of results alone
would not do that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

_BYTES_MAX: Final = 1024


class BoundedMemo(dict[KeyT, ValueT]):
    """`memo[key]` is `make(key)`. A dictionary, since a hit then costs no call.

    Args:
        make: pure function.
        weigh: encoded bytes of a key and its value; above 1024 nothing is kept.
        count_max: results at which all are forgotten.
    """

    def __init__(self, make: Callable[[KeyT], ValueT], weigh: Callable[[KeyT, ValueT], int], count_max: int) -> None:
        super().__init__()
        self._make, self._weigh, self._count_max = make, weigh, count_max

    def __missing__(self, key: KeyT) -> ValueT:
        made = self._make(key)
        if self._weigh(key, made) <= _BYTES_MAX:
            if len(self) >= self._count_max:
                self.clear()
            self[key] = made
        return made
