"""Urgent jobs first (Agung, Watanabe, Weber, Egawa and Takizawa, IEEE Access 9, 2021)."""
