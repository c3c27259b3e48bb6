"""Random plans on random models, run in several circumstances: what `check` says of them, and whether it is so."""
