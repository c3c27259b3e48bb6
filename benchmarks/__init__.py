"""Speed, always beside something else in the same run. Nothing here is a test."""
