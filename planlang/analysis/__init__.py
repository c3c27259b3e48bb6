"""What a plan means on a model: matching, assignment, torch keys, checks, coverage."""
