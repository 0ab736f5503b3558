"""SimGrid's clock, network and processes: for jobs that communicate, and for runs equal to Batsim to the last bit."""
