"""Platforms: read SimGrid's platform files as Batsim does, without Batsim."""
