import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from planlang.model.formulas import Formula, Inexpressible, fit
from planlang.model.graph import FLOAT, Arithmetic, Dim, Event, Guard, Size
from planlang.model.traced_int import TracedInt, as_argument

SETTINGS = ((3, 10), (5, 14), (4, 22))
HERE = Dim(0, 1)


class Notes:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def note(self, event: Event) -> None:
        self.events.append(event)


@pytest.mark.parametrize(
    ("compute", "number", "origin"),
    [
        (lambda n: n + 1, 11, Arithmetic("+", HERE, 1)),
        (lambda n: 1 + n, 11, Arithmetic("+", 1, HERE)),
        (lambda n: n - 3, 7, Arithmetic("-", HERE, 3)),
        (lambda n: 64 - n, 54, Arithmetic("-", 64, HERE)),
        (lambda n: n * n, 100, Arithmetic("*", HERE, HERE)),
        (lambda n: 21 // n, 2, Arithmetic("//", 21, HERE)),
        (lambda n: n % 4, 2, Arithmetic("%", HERE, 4)),
        (lambda n: -n, -10, Arithmetic("-", 0, HERE)),
        (lambda n: divmod(n, 4)[0], 2, Arithmetic("//", HERE, 4)),
        (lambda n: +n, 10, HERE),
        (lambda n: sum([n, n]), 20, Arithmetic("+", Arithmetic("+", 0, HERE), HERE)),
    ],
)
def test_arithmetic_keeps_the_origin(compute: Callable[[TracedInt], Any], number: int, origin: Any) -> None:
    assert as_argument(compute(TracedInt(10, HERE, Notes()))) == Size(number, origin)


@pytest.mark.parametrize(
    ("ask", "op", "other", "answer"),
    [
        (lambda n: n == 1, "==", 1, False),
        (lambda n: n > 1, ">", 1, True),
        (lambda n: n <= 10, "<=", 10, True),
        (lambda n: bool(n), "!=", 0, True),
        (lambda n: max(n, 3), "<", 3, False),
    ],
)
def test_comparisons_are_noted(ask: Callable[[TracedInt], Any], op: str, other: int, answer: bool) -> None:
    notes = Notes()
    ask(TracedInt(10, HERE, notes))
    assert notes.events == [Guard(op, Size(10, HERE), other, answer)]


@pytest.mark.parametrize(
    ("make", "number"),
    [
        (lambda n: n / 4, 2.5),
        (lambda n: 5 / n, 0.5),
        (lambda n: n**0.5, 10**0.5),
        (lambda n: 2**n, 1024),
        (lambda n: n * 0.5, 5.0),
        (lambda n: math.sqrt(n), 10**0.5),
    ],
)
def test_floats_of_it_are_noted(make: Callable[[TracedInt], Any], number: float) -> None:
    notes = Notes()
    assert make(TracedInt(10, HERE, notes)) == number
    assert notes.events == [Guard(FLOAT, Size(10, HERE), None, True)]


def test_it_is_an_integer_in_all_else() -> None:
    number = TracedInt(10, HERE, Notes())
    assert number / 4 == 2.5
    assert [*range(number)] == [*range(10)]
    assert {10: "ten"}[number] == "ten"
    assert number * 0.5 == 5.0
    assert (number + True) == 11
    assert number > 9.5
    for twin in (copy.copy(number), copy.deepcopy(number), pickle.loads(pickle.dumps(number))):
        assert (twin, type(twin)) == (10, int)


@pytest.mark.parametrize(
    ("numbers", "formula"),
    [
        ((7, 7, 7), 7),
        ((10, 14, 22), Formula(0, 1, 0, 1)),
        ((3, 5, 4), Formula(0, 1, 1, 0)),
        ((60, 140, 176), Formula(0, 2, 1, 1)),
        ((54, 50, 42), Formula(64, -1, 0, 1)),
        ((9, 13, 21), Formula(-1, 1, 0, 1)),
        ((100, 196, 484), Formula(0, 1, 0, 2)),
        ((31, 71, 89), Formula(1, 1, 1, 1)),
        ((-3, -5, -4), Formula(0, -1, 1, 0)),
    ],
)
def test_formulas(numbers: tuple[int, ...], formula: int | Formula) -> None:
    found = fit(numbers, SETTINGS)
    assert found == formula
    if isinstance(found, Formula):
        assert tuple(found.at(*setting) for setting in SETTINGS) == numbers


@pytest.mark.parametrize("numbers", [(1, 1, 2), (10, 14, 21), (0, 0, 1), (1, 2, 4)])
def test_what_follows_no_formula(numbers: tuple[int, ...]) -> None:
    with pytest.raises(Inexpressible, match=f"no formula in batch and length gives {numbers[0]} at 3 x 10, "):
        fit(numbers, SETTINGS)


def test_one_size_alone_is_never_of_the_other() -> None:
    assert fit((10, 14, 22), ((1, 10), (1, 14), (1, 22))) == Formula(0, 1, 0, 1)
    assert fit((6, 9, 15), ((2, 1), (3, 1), (5, 1))) == Formula(0, 3, 1, 0)
