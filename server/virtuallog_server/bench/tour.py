"""A walk through all ordered pairs: each thing is followed by each one exactly once, by itself as well.               Pure.

An Eulerian circuit on the complete directed graph with loops, which is the same as a de Bruijn sequence of words of two letters,
and so is written down at once: all Lyndon words of one or two letters, in the order of the dictionary (Fredricksen and Maiorana).
For three: 0 01 02 1 12 2, and round again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import TypeVar

PlaceT = TypeVar("PlaceT")


def circuit(places: Sequence[PlaceT]) -> Iterator[PlaceT]:
    """Every place as often as there are places; the last one is followed by the first."""
    for index, first in enumerate(places):
        yield first
        for second in places[index + 1 :]:
            yield first
            yield second


def tour(places: Sequence[PlaceT], rounds: int) -> Iterator[PlaceT]:
    """So many circuits one after the other, back to the beginning: each ordered pair comes up once per round.

    Rounds, and not all times of one pair in a row, so that whatever else a machine does meanwhile hits all pairs alike.
    """
    return chain(chain.from_iterable(repeat(list(circuit(places)), rounds)), places[:1])
