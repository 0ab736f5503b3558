"""Runs and campaigns to look at: one self-contained page, and single figures for papers."""
