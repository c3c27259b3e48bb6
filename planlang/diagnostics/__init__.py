"""Findings: the table of codes, their pages, and how they are printed."""
