"""Commands that try for long what the tests try for a moment; docs/reliability.md has what they found."""
