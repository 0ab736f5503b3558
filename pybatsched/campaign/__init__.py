"""Campaigns: many runs described in one file, run on all cores or a cluster, stopped and resumed, one table of all."""
