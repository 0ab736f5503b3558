"""What authors of policies build on: local schedulers, profiles of free processors, and finding plugins."""
