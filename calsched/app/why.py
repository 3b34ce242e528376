"""``why ID INSTANT``: what one snapshot knows of an instant (``stores.why``), put in words (``calsched.explain``)."""

from __future__ import annotations

from dataclasses import replace

from calsched.app.look import Look
from calsched.explain import Explanation, WhyFacts, explain
from calsched.stores.why import why

_HOLDS = {
    "backward": "dispatch is on hold, because the wall clock was set back (`calsched clock`)",
    "forward": "dispatch is on hold, because the wall clock jumped forward (`calsched clock`)",
    "restored": "dispatch is on hold, because the store was restored from a backup (`calsched backlog`)",
}


class Why(Look):
    def why(self, id: str, instant: int) -> tuple[Explanation, WhyFacts]:
        """The one verdict on an instant, in sentences and as facts. Raises UnknownSchedule, and Refused."""
        store = self.store()
        with store.read() as conn:
            facts = why(store, conn, self.namespace, id, instant)
            owned = self._owned(self._alive(conn))
        facts = replace(facts, owner_lives=owned, hold=_HOLDS.get(facts.hold, facts.hold) if facts.hold else None)
        return explain(facts), facts
