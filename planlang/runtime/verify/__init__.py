"""`planlang verify`: every rank of a plan in one process, on a tiny twin of the model, against one device."""
