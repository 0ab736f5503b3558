"""EASY with redirection."""
