"""Upkeep of the ledger: what may go."""

from __future__ import annotations

from collections.abc import Callable

from calsched.app.core import Core
from calsched.errors import InvalidInput, Problem
from calsched.policies.retention import Keep
from calsched.stores import retain
from calsched.stores.retain import Pruned

_DAY = 86_400_000


class Upkeep(Core):
    def prune(
        self,
        id: str | None = None,
        *,
        keep_days: int | None = None,
        keep_count: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Pruned:
        """Remove verdicts that neither limit wants to keep, of one schedule or the namespace, in small transactions.

        Limits that are not given are the settings'. Raises InvalidInput where there is none at all.
        """
        days = self.settings.keep_days if keep_days is None else keep_days
        count = self.settings.keep_count if keep_count is None else keep_count
        if days is None and count is None:
            hint = "--keep-days or --keep-count, or keepDays or keepCount in calsched.toml"
            raise InvalidInput([Problem("nothing says what is to be kept", "prune", hint=hint)])
        store = self.store()
        keep = Keep(None if days is None else days * _DAY, count)
        return retain.prune(store, self.now(), keep, namespace=self.namespace, schedule_id=id, progress=progress)
