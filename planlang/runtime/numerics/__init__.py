"""How far a plan moves a model's numbers, and which part of that is the plan's and which the kernels'."""
