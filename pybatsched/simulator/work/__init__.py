"""The work of jobs: profiles, parallel tasks and usage traces."""
