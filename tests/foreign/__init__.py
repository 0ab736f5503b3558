"""Programs of other people, from the package index, that must take our simulator and its files for Batsim's."""
