"""The values of options: what `-D NAME=VALUE` and keyword arguments give, read by the type of the default."""

from __future__ import annotations

from typing import TypeAlias

Value: TypeAlias = bool | int | str

_TRUTH = {"true": True, "false": False}


def read_option(given: bool | int | str, default: bool | int | str) -> bool | int | str:
    """`given` as the type of `default`; a text that says why not where it cannot be and the default is no text.

    Args:
        given: a value, or the text behind `-D NAME=`.
        default: the value in the plan's `option` line.
    """
    if isinstance(default, bool):
        if isinstance(given, bool):
            return given
        lower = str(given).lower()
        if isinstance(given, str) and given not in _TRUTH and lower in _TRUTH:
            return f"`{given}`: did you mean `{lower}`?"
        otherwise = f"`{_short(str(given))}`: it is `true` or `false`"
        return _TRUTH.get(given, otherwise) if isinstance(given, str) else otherwise
    if isinstance(default, int):
        if isinstance(given, int) and not isinstance(given, bool):
            return given
        text = str(given)
        if text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) <= 18:
            return int(text)
        return f"`{_short(text)}`: it is a whole number"
    return given if isinstance(given, str) else str(given).lower() if isinstance(given, bool) else str(given)


def _short(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:27]}…"
