"""Arbitrary spans on two devices, for Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from recordings import Span

SPANS = st.lists(
    st.builds(
        Span,
        op=st.sampled_from(["fusion", "fusion.1", "all-gather", "all-reduce.2", "copy", "while"]),
        start=st.integers(0, 200),
        dur=st.integers(0, 60),
        device=st.integers(0, 1),
        line=st.integers(0, 2),
    ),
    min_size=1,
    max_size=25,
)
