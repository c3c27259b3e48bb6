"""The words of the language, which name nothing else; a test holds them to the grammar."""

KEYWORDS = frozenset(
    (
        *("plan", "for", "mesh", "extends", "drop", "let", "option", "when", "else", "require", "expect", "override"),
        *("except", "is", "custom", "and", "or", "not", "in", "true", "false", "none"),
    )
)

# The words of the styles. They are no keywords; knowing them here makes better guesses at what a line was meant to be.
STYLE_WORDS = frozenset(("colwise", "rowwise", "sequence", "prepare", "replicate", "attention", "skip", "custom"))
