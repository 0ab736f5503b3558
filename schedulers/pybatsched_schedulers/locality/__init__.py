"""Locality: jobs go to nodes that hold their input files."""
