"""Machines by name: what is known of them, and SimGrid platform files made from it."""
