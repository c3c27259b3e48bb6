"""What the invariant styles keep and cost, at the widths of published models."""
