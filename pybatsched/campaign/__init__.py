"""Run campaigns: many runs described in one file, on all cores or a cluster, resumable, with one table of results."""
