"""Published studies, one in each folder: campaigns, claims, what exists for a study alone, and its results."""
