"""Where numbers stand in the records of passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Json: TypeAlias = Any
Visit: TypeAlias = Callable[[Json], Json]


def visit_numbers(passes: Mapping[str, Sequence[Json]], visit: Visit) -> Json:
    """The same records with every number in them replaced by what `visit` makes of it."""
    return {name: [_case(case, visit) for case in cases] for name, cases in passes.items()}


def _case(case: Json, visit: Visit) -> Json:
    stream = []
    for tag, *rest in case["stream"]:
        if tag == "block":
            stream.append([tag, _block(rest[0], visit), rest[1]])
        else:
            prefix, start, program = rest
            stream.append([tag, prefix, start, [[kinds, visit(times)] for kinds, times in program]])
    bodies = [[_block(block, visit), *rest] for block, *rest in case["bodies"]]
    return {**case, "bodies": bodies, "stream": stream}


def _block(block: Json, visit: Visit) -> Json:
    events, values = block
    return [
        [_event(event, visit) for event in events],
        [[[visit(size) for size in value[0]], *value[1:]] for value in values],
    ]


def _event(event: Json, visit: Visit) -> Json:
    match event:
        case ["op" | "enter" as tag, name, args, kwargs, *rest]:
            named = [[key, _argument(each, visit)] for key, each in kwargs]
            return [tag, name, [_argument(each, visit) for each in args], named, *rest]
        case ["leave", name, args]:
            return ["leave", name, [_argument(each, visit) for each in args]]
        case _:
            _, op, left, right, answer = event
            return ["guard", op, _argument(left, visit), _argument(right, visit), answer]


def _argument(argument: Json, visit: Visit) -> Json:
    match argument:
        case ["number", *_] | ["formula", *_] | ["constant"]:
            return visit(argument)
        case ["size", number, origin]:
            return ["size", visit(number), _argument(origin, visit)]
        case ["tuple" | "slice" | "+" | "-" | "*" | "//" | "%" as tag, *parts]:
            return [tag, *(_argument(part, visit) for part in parts)]
        case bool() | None:
            return argument
        case int() | float():
            return visit(argument)
    return argument
