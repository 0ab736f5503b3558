"""Deadline-based backfilling (N'Takpé and Suter, Compas 2016)."""
