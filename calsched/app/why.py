"""``why ID INSTANT``: what one snapshot knows of an instant (``stores.why``), put in words (``calsched.explain``)."""

from __future__ import annotations

from dataclasses import replace

from calsched.app.look import Look
from calsched.explain import Explanation, WhyFacts, explain
from calsched.stores.why import why


class Why(Look):
    def why(self, id: str, instant: int) -> tuple[Explanation, WhyFacts]:
        """The one verdict on an instant, in sentences and as facts. Raises UnknownSchedule, and Refused."""
        store = self.store()
        with store.read() as conn:
            facts = why(store, conn, self.namespace, id, instant)
            owned = self._owned(self._alive(conn))
        facts = replace(facts, owner_lives=owned)
        return explain(facts), facts
