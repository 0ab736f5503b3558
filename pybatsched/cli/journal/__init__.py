"""Commands that read a journal: replay a run and explain a job."""
