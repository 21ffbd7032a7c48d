"""The model of a split: the search against all combinations, and what a split must be."""

from __future__ import annotations

import itertools
import random

import pytest

from pgflash.place.model import EXPONENT, Item, Problem, answered, fit_exponent

GB = 1024**3


def some(seed: int, count: int) -> list[Item]:
    drawn = random.Random(seed)
    return [
        Item(
            f"o{number}", drawn.randint(1, 40) * GB // 4, drawn.choice([0, 1, 10, 100, 1000]) * drawn.random(),
            drawn.choice([0, 1, 10, 300]) * drawn.random(), drawn.choice([1.0, 5.0, 8.0]), 0.1, movable=drawn.random() > 0.1,
        )
        for number in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(25))
def test_the_search_finds_what_trying_all_finds(seed: int) -> None:
    problem = Problem(some(seed, 9))
    for flash in (2 * GB, 9 * GB, 25 * GB):
        best, found = problem.exact(flash), problem.greedy(flash)
        assert best.cost <= found.cost <= best.cost + 0.01 * (problem.worst - best.cost)


@pytest.mark.parametrize("seed", range(10))
def test_a_split_fits_and_nothing_is_both(seed: int) -> None:
    items = some(seed, 40)
    problem = Problem(items)
    for split in problem.curve(60 * GB, 6):
        moved = [item for item in items if item.key in split.moved]
        assert sum(item.bytes for item in moved) + split.cache <= split.flash + len(items)
        assert not set(split.moved) & set(split.cached)
        assert all(item.movable for item in moved)
        assert all(item.reads > item.writes for item in items if item.key in split.cached)
        assert split.cost <= problem.worst


def test_more_flash_never_costs_more() -> None:
    costs = [split.cost for split in Problem(some(3, 60)).curve(80 * GB)]
    assert costs == sorted(costs, reverse=True) and costs[-1] < costs[0]


def test_written_is_moved_and_read_is_cached() -> None:
    hot = Item("hot-written", GB, 100, 900, 5.0, 0.1)
    read = Item("read", 20 * GB, 2000, 0, 5.0, 0.1)
    split = Problem([hot, read]).solve(4 * GB)
    assert split.moved == ("hot-written",) and set(split.cached) == {"read"} and split.cache == 3 * GB


def test_the_cost_of_one_object_is_by_hand() -> None:
    """1,000 reads a second of 5 ms; half of it cached answers 0.5 ** 0.3 of them in 0.1 ms."""
    split = Problem([Item("a", 2 * GB, 1000, 0, 5.0, 0.1, movable=False)]).solve(GB)
    assert split.cost == pytest.approx(1000 * (5.0 - 0.5**EXPONENT * 4.9))


def test_no_faster_flash_gains_nothing() -> None:
    split = Problem([Item("a", GB, 1000, 10, 0.1, 0.1)]).solve(4 * GB)
    assert not split.moved and not split.cached and split.cost == pytest.approx(101.0)


def test_the_curve_is_concave_and_fits_what_was_measured() -> None:
    shares = [number / 50 for number in range(51)]
    gains = [answered(high) - answered(low) for low, high in itertools.pairwise(shares)]
    assert answered(0) == 0 and answered(1) == 1 and answered(2) == 1
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(gains))
    assert fit_exponent([]) == EXPONENT
    assert fit_exponent([(0.1, answered(0.1, 0.6)), (0.5, answered(0.5, 0.6))]) == 0.6
