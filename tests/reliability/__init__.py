"""Machinery that looks for faults by itself: commands behind `make`, and what their tests share."""
