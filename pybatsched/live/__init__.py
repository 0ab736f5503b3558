"""Sockets and child processes: the scheduler as a server, and a real Batsim as its client."""
