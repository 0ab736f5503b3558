"""The embedded simulator: Batsim 4.2.1's side of the protocol, played event for event, without a network model."""
