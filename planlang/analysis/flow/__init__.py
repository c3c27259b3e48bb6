"""Layouts and gradients of one forward and backward pass of a parallel model, without running it.

Read `state.py` (what is known of a tensor), then `operators/` (what operators do to layouts), `boundaries.py` (what
styles do at a module's edge), `forward.py` and `backward.py` (the two walks), and `check.py` (from a plan to findings).
"""
