"""Why the simulator ends a run that Batsim would have aborted."""

from __future__ import annotations

from pybatsched.errors import RemoteProtocolError


class Refusal(RemoteProtocolError):  # noqa: N818  its name says whose fault it is not
    """The scheduler asked for something that Batsim does not survive."""
