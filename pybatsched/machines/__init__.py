"""Machines by name: their data, and the SimGrid platform files that are generated from it."""
