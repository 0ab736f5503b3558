"""Long tests with deliberate faults: crashes, full disks, mutated input, and endurance."""
