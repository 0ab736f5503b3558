"""Reallocation (Caniou, Charrier and Desprez, AusPDC 2011)."""
