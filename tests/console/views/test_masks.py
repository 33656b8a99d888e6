"""Masks of values: exact paths, `*`, `**`, and everything below what they match."""

from __future__ import annotations

import pytest

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_console.views.masks import NO_MASKS, Masks


@pytest.mark.parametrize(
    ("pattern", "covered", "open_"),
    [
        ("/a", ["/a", "/a/b", "/a/b/c"], ["/", "/ab", "/b", "/b/a"]),
        ("/a/*/c", ["/a/b/c", "/a/x/c/d"], ["/a/c", "/a/b", "/a/b/b/c", "/a/b/cc"]),
        ("/a/key-*", ["/a/key-", "/a/key-1", "/a/key-1/b"], ["/a/key", "/a/a-key-1", "/a"]),
        ("/*-*-z", ["/--z", "/a-b-z", "/-z-z"], ["/-z", "/a-z", "/a-b-zz"]),
        ("/a/**", ["/a", "/a/b", "/a/b/c"], ["/", "/b"]),
        ("/**/c", ["/c", "/a/c", "/a/b/c", "/a/c/b"], ["/", "/a", "/a/cc"]),
        ("/a/**/b/*", ["/a/b/c", "/a/x/y/b/c"], ["/a/b", "/a", "/a/x/b"]),
        ("/", ["/", "/a", "/a/b"], []),
        ("/**", ["/", "/a", "/a/b"], []),
    ],
)
def test_a_pattern_covers_what_it_matches_and_everything_below(
    pattern: str, covered: list[str], open_: list[str]
) -> None:
    """One row for each kind of pattern: covered paths, and paths beside them."""
    masks = Masks((pattern,))
    assert [path for path in covered if not masks.covers(path)] == []
    assert [path for path in open_ if masks.covers(path)] == []


def test_a_path_with_a_slip_is_covered_as_the_path_that_was_meant() -> None:
    """Replicas refuse such a path, and the log has the command with its value all the same."""
    assert Masks(("/a/b",)).covers("/a//b")
    assert Masks(("/a/b",)).covers("/a/./b/")


def test_several_patterns_are_one_mask() -> None:
    """Each of them hides; without any, nothing is hidden."""
    masks = Masks(("/a", "/b/*"))
    assert [path for path in ("/a", "/b", "/b/c", "/c") if masks.covers(path)] == ["/a", "/b/c"]
    assert not NO_MASKS.covers("/a")
    assert not NO_MASKS.may_cover_below("/")


def test_it_is_known_where_something_may_be_hidden_below() -> None:
    """Above a pattern, on the way to it, and below it; not beside it."""
    masks = Masks(("/a/*/c",))
    assert [path for path in ("/", "/a", "/a/b", "/a/b/c", "/a/b/c/d", "/b", "/a/b/d") if masks.may_cover_below(path)] == [
        "/", "/a", "/a/b", "/a/b/c", "/a/b/c/d"
    ]  # fmt: skip


@pytest.mark.parametrize("pattern", ["", "a", "a/b", "/a/", "//a", "/a//b", "/a/../b", "/./a"])
def test_a_pattern_that_is_no_path_is_refused(pattern: str) -> None:
    """A mask that never matches would be believed to hide something."""
    with pytest.raises(InvalidSettingError):
        Masks((pattern,))


def test_long_names_with_many_stars_take_no_time() -> None:
    """Names come from clients: a match never tries one split after the other."""
    assert not Masks(("/" + "a*" * 40 + "b",)).covers("/" + "a" * 100_000)
