"""The words of the language, which name nothing else; a test holds them to the grammar."""

KEYWORDS = frozenset(
    (
        *("plan", "for", "mesh", "extends", "drop", "let", "option", "when", "else", "require", "expect", "override"),
        *("except", "is", "custom", "and", "or", "not", "in", "true", "false", "none"),
    )
)
