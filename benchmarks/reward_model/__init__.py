"""A reward model under tensor-parallel plans: which scores change, which pairs, and what 50 training steps end in.

See README.md beside this file for the commands and the results.
"""
