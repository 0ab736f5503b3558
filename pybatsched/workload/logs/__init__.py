"""Logs of jobs: one table for all formats, a reader for each format, and the conversion of the table to a workload."""
