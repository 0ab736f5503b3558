"""The page about a campaign, and the points, means and boxes that its charts show."""
