"""Urgent jobs first: with backfilling (UJFB) and without (UJF)."""
