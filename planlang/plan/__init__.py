"""From files to the resolved plan: includes, options, conditions, names, styles."""
