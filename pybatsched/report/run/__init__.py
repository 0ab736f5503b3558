"""The page of runs."""
