"""Deadline-based backfilling (DBF)."""
