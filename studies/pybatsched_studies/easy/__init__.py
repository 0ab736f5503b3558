"""EASY with exact run times (predictsim, SC 2015)."""
