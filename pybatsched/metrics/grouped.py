"""Placeholder."""

from typing import Any


def summary_table(frame: Any, by: Any, figures: Any, level: float) -> Any:
    """Group."""
    import polars as pl

    return frame.group_by(list(by), maintain_order=True).agg(pl.len().alias("n"), *[pl.col(f).mean() for f in figures])
