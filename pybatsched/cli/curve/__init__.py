"""Commands for CURVE encryption: generate keys, and relay for a Batsim without keys."""
