"""The wall-clock engine."""

from __future__ import annotations

from calsched.policies.clock_change import FoldRule, GapRule, resolve
from calsched.zones import Zone


def resolve_local(zone: Zone, wall: int, gap: GapRule, fold: FoldRule) -> tuple[int, ...]:
    """The instants (UTC milliseconds, in order) of a wall time in seconds since 1970-01-01T00:00:00 local."""
    return tuple(second * 1000 for second in resolve(zone.local(wall), gap=gap, fold=fold))
