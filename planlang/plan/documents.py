"""YAML and JSON as they come from strangers: nothing is dropped, nothing runs, and no text keeps Python busy for long.

Beyond what the usual readers refuse: a key that stands twice, of which they keep the last without a word; an alias
that holds itself; aliases of aliases that stand for more than `MOST_NODES` values.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.reader import ReaderError

MOST_NODES = 1_000_000  # a text of the largest size that is read holds fewer, unless it repeats itself by aliases


class DocumentError(ValueError):
    """A text that is no such document.

    Attributes:
        problem: why, on one line.
        at: the offset of the character that shows it, where it is known.
    """

    def __init__(self, problem: str, at: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.at = at


def read_json(text: str) -> Any:
    """What a JSON text holds.

    Raises:
        DocumentError: it is none, or names a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except DocumentError:
        raise
    except json.JSONDecodeError as error:
        raise DocumentError(error.msg, error.pos) from error
    except RecursionError as error:
        raise DocumentError("it is nested too deep") from error
    except ValueError as error:  # a number of too many digits
        raise DocumentError(_line(error)) from error


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise DocumentError(f"the key {short(key)} stands twice")
        found[key] = value
    return found


def read_yaml(text: str) -> Any:
    """What a YAML text holds; tags that make objects are refused.

    Raises:
        DocumentError: it is none, names a key twice, or repeats itself without end.
    """
    try:
        return _load(text)
    except DocumentError:
        raise
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark.index if error.problem_mark else None
        raise DocumentError(_line(error.problem or error), at) from error
    except ReaderError as error:
        raise DocumentError(f"the character {chr(error.character)!a} may not stand in it", error.position) from error
    except RecursionError as error:
        raise DocumentError("it is nested too deep") from error
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentError(_line(error)) from error


def _load(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count(node, {}, set())
        return loader.construct_document(node)
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """Plain values alone; whatever goes wrong with one is said of its place."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (yaml.YAMLError, RecursionError):
            raise
        except Exception as error:  # the readers of scalars trust what they are given
            kind = str(node.tag).rpartition(":")[2]
            message = f"{short(node.value)} is no {kind}" if isinstance(node.value, str) else f"this is no {kind}"
            raise ConstructorError(None, None, message, node.start_mark) from error

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
            if name in seen and name != ("tag:yaml.org,2002:merge", "<<"):
                raise ConstructorError(None, None, f"the key {short(key.value)} stands twice", key.start_mark)
            if name:
                seen.add(name)
        return super().construct_mapping(node, deep)


def _count(node: Any, known: dict[int, int], above: set[int]) -> int:
    """How many values a node stands for once every alias is written out."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) in known:
        return known[id(node)]
    if id(node) in above:
        raise ConstructorError(None, None, "an alias stands for itself", node.start_mark)
    above.add(id(node))
    pairs = isinstance(node, yaml.MappingNode)
    parts = [part for pair in node.value for part in pair] if pairs else node.value
    total = 1 + sum(_count(part, known, above) for part in parts)
    above.remove(id(node))
    if total > MOST_NODES:
        raise ConstructorError(None, None, f"its aliases stand for more than {MOST_NODES} values", node.start_mark)
    known[id(node)] = total
    return total


def short(value: Any) -> str:
    """A value as a message quotes it: on one line, and not longer than that."""
    text = ascii(value) if not str(value).isprintable() else repr(value)
    return text if len(text) <= 60 else f"{text[:40]}…{text[-10:]}"


def _line(error: object) -> str:
    return " ".join(str(error).split()) or type(error).__name__
