"""Runs: what describes one (`spec`), what it simulates (`build`), and how it is run (`execute`)."""
