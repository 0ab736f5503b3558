"""Commands for CURVE encryption: make keys, and relay for a Batsim without keys."""
