"""What a wall time becomes under each gap and fold rule."""

from __future__ import annotations

import pytest

from calsched.policies.clock_change import (
    FOLD_RULES,
    GAP_RULES,
    Fold,
    FoldRule,
    Gap,
    GapRule,
    LocalTime,
    Unambiguous,
    resolve,
)

ONCE, GAP, TWICE = Unambiguous(100), Gap(shifted=130, boundary=120), Fold(first=200, second=260)

TABLE: list[tuple[LocalTime, GapRule, FoldRule, tuple[int, ...]]] = [
    (ONCE, "skip", "first", (100,)),
    (ONCE, "boundary", "both", (100,)),
    (GAP, "skip", "first", ()),
    (GAP, "shift", "first", (130,)),
    (GAP, "boundary", "both", (120,)),
    (TWICE, "skip", "first", (200,)),
    (TWICE, "shift", "second", (260,)),
    (TWICE, "boundary", "both", (200, 260)),
]


@pytest.mark.parametrize(("local", "gap", "fold", "instants"), TABLE)
def test_a_wall_time_resolves_by_the_declared_rules(
    local: LocalTime, gap: GapRule, fold: FoldRule, instants: tuple[int, ...]
) -> None:
    assert resolve(local, gap=gap, fold=fold) == instants


@pytest.mark.parametrize("gap", GAP_RULES)
@pytest.mark.parametrize("fold", FOLD_RULES)
def test_the_gap_rule_never_touches_a_fold_nor_the_fold_rule_a_gap(gap: GapRule, fold: FoldRule) -> None:
    assert resolve(GAP, gap=gap, fold=fold) == resolve(GAP, gap=gap, fold="first")
    assert resolve(TWICE, gap=gap, fold=fold) == resolve(TWICE, gap="skip", fold=fold)
