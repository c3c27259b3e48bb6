"""Models as data: module trees, the catalog of published ones, their capture."""
