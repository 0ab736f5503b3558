"""Platforms: reading SimGrid's files the way Batsim does, without Batsim."""
