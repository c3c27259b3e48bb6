"""The command line: one file a command, no language logic."""
