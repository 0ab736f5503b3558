"""The page of a campaign, and the points, means and boxes in its charts."""
