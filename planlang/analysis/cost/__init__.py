"""What a plan costs: the collectives of a pass, the sums that cross ranks, and the memory of every rank.

`ledger.py` counts what the two walks of `planlang.analysis.flow` found, `reductions.py` grades it, and `memory.py`
needs no walk: a plan and a module tree are enough.
"""
