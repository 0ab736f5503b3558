"""Problems in logs, found line by line and over the whole log."""
