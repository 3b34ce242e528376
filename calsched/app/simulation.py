"""``simulate``: the ledger that declarations would leave in a span of time, with outages, clock steps and failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calsched.app.files import Files, Sources
from calsched.declare.document import Format
from calsched.errors import InvalidInput
from calsched.simulate import Ledger, compare, simulate


@dataclass(frozen=True, slots=True)
class Scenario:
    """A span of time, and what goes wrong in it. Instants and lengths of time in milliseconds."""

    start: int
    end: int
    downs: Sequence[tuple[int, int]] = ()
    clock_steps: Sequence[tuple[int, int]] = ()
    durations: Mapping[str, int] = field(default_factory=dict)
    fails: Mapping[str, int] = field(default_factory=dict)


class Simulation(Files):
    def simulate(self, sources: Sources, scenario: Scenario, format: Format | None = None) -> Ledger:
        """Play enabled declarations through a scenario. No store is read or written. Raises InvalidInput."""
        return simulate(**self._played(sources, scenario, format))

    def compare_misfires(
        self, sources: Sources, scenario: Scenario, format: Format | None = None
    ) -> Mapping[str, Ledger]:
        """The same scenario under each misfire policy."""
        found: Mapping[str, Ledger] = compare(**self._played(sources, scenario, format))  # type: ignore[assignment]
        return found

    def _played(self, sources: Sources, scenario: Scenario, format: Format | None) -> dict[str, Any]:
        checked = self.declarations(sources, format)
        played = [found for found in checked.declarations if found.enabled]
        if not played:
            raise InvalidInput("no enabled schedule in these files")
        triggers = {(one.definition.namespace, one.definition.id): one.trigger for one in played}
        return {
            "definitions": [found.definition for found in played],
            "start": scenario.start,
            "end": scenario.end,
            "downs": scenario.downs,
            "clock_steps": scenario.clock_steps,
            "durations": scenario.durations,
            "fails": scenario.fails,
            "build": lambda definition: triggers[definition.namespace, definition.id],
            "tolerance": self.settings.clock_tolerance,
        }
