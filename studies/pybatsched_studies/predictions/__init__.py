"""Predicted run times (predictsim, SC 2015)."""
