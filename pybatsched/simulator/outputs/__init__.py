"""Batsim's output files: CSV tables and the Paje trace."""
