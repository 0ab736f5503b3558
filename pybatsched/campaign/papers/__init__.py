"""The studies that `pybatsched reproduce` knows, as data: a directory each (docs/reproductions.md)."""
