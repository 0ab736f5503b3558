"""Platforms: reads SimGrid's platform files as Batsim does, without Batsim."""
