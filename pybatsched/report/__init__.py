"""Report runs and campaigns: one self-contained page, and single figures for papers."""
