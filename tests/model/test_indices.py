import pytest
from hypothesis import given
from hypothesis import strategies as st

from planlang.indices import ALL, NONE, IndexSet
from planlang.model.store import parse_indices

BOUND = 12  # members lie below it, so that the numbers up to one more tell any two sets apart
NUMBERS = range(BOUND + 1)
index_sets = st.builds(IndexSet, st.frozensets(st.integers(0, BOUND - 1)), st.booleans())


def listed(indices: IndexSet) -> set[int]:
    return {number for number in NUMBERS if number in indices}


@given(index_sets, index_sets)
def test_algebra_is_that_of_sets(left: IndexSet, right: IndexSet) -> None:
    assert listed(left & right) == listed(left) & listed(right)
    assert listed(left | right) == listed(left) | listed(right)
    assert listed(left - right) == listed(left) - listed(right)
    assert listed(~left) == set(NUMBERS) - listed(left)


@given(index_sets, index_sets)
def test_equal_exactly_where_the_members_are(left: IndexSet, right: IndexSet) -> None:
    assert (left == right) == (listed(left) == listed(right))
    assert bool(left) == bool(listed(left))


@given(index_sets)
def test_text_is_read_back(indices: IndexSet) -> None:
    assert parse_indices(str(indices)) == indices


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], "{}"), ([3], "{3}"), ([0, 1], "{0,1}"), ([0, 1, 2], "{0..2}"), ([0, 2, 7, 8, 9], "{0,2,7..9}")],
)
def test_text_of_finite_sets(numbers: list[int], text: str) -> None:
    assert str(IndexSet.of(numbers)) == text


def test_text_of_open_sets() -> None:
    assert str(ALL) == "*"
    assert str(ALL - IndexSet.of(range(4))) == "* except {0..3}"


def test_finite_sets_are_listed_in_order() -> None:
    assert list(IndexSet.of([7, 2, 5])) == [2, 5, 7]
    assert len(IndexSet.of([7, 2, 7])) == 2
    assert not NONE


def test_open_sets_are_not_listed() -> None:
    with pytest.raises(ValueError, match="no length"):
        len(ALL)
    with pytest.raises(ValueError, match="cannot be listed"):
        iter(ALL).__next__()


@pytest.mark.parametrize("text", ["", "3", "{3", "{a}", "all", "* but {3}"])
def test_other_text_is_no_index_set(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is `int`'s in some cases
        parse_indices(text)
