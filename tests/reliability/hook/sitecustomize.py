"""Loaded by any interpreter that has this directory on its path, before all else: arms it if that is wanted."""

from reliability import moments

moments.arm_by_environment()
