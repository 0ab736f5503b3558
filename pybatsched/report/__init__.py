"""Report runs and campaigns: one self-contained page, and single charts for papers."""
