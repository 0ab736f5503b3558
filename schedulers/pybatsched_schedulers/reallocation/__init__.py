"""Reallocation of waiting jobs between clusters."""
