"""Loaded by any interpreter that has this directory on its path, before all other modules: arms it on request."""

from reliability.crashes import self_kill

self_kill.arm_by_environment()
