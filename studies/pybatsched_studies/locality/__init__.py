"""Locality (Gonthier, Larsson, Marchal, Nettelblad and Thibault, APDCM 2024)."""
