"""Plans by the thousand, right and wrong, with what became of each: the truth that the static checker is held to."""
