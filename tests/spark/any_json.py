"""Any JSON, where an offset is expected."""

from __future__ import annotations

from hypothesis import strategies as st

CLUSTER = "c3" * 16
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(CLUSTER),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["cluster", "position"]) | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
