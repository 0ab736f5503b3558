"""Programs of other projects, from the package index, that must accept our simulator and its files as Batsim's."""
