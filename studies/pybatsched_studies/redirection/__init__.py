"""Redirection (Faure, Lucarelli, Richard and Trystram, IPDPSW 2020)."""
