"""Upkeep of the ledger: what may go, backups, and what becomes of a restored store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from calsched.app.control import Control
from calsched.errors import InvalidInput, Problem
from calsched.policies.retention import Keep

if TYPE_CHECKING:
    from calsched.stores.backlog import How
    from calsched.stores.backup import Backup
    from calsched.stores.restore import Restored
    from calsched.stores.retain import Pruned

_DAY = 86_400_000

#: Told as long work goes on: done, of how many.
Progress = Callable[[int, int], None]


class Upkeep(Control):
    """Each verb is imported by its own method: hardly any command needs them."""

    def prune(
        self,
        id: str | None = None,
        *,
        keep_days: int | None = None,
        keep_count: int | None = None,
        progress: Progress | None = None,
    ) -> Pruned:
        """Remove verdicts that neither limit wants to keep, of one schedule or the namespace, in small transactions.

        Limits that are not given are the settings'. Raises InvalidInput where there is none at all.
        """
        from calsched.stores import retain

        days = self.settings.keep_days if keep_days is None else keep_days
        count = self.settings.keep_count if keep_count is None else keep_count
        if days is None and count is None:
            hint = "--keep-days or --keep-count, or keepDays or keepCount in calsched.toml"
            raise InvalidInput([Problem("nothing says what is to be kept", "prune", hint=hint)])
        store = self.store()
        keep = Keep(None if days is None else days * _DAY, count)
        return retain.prune(store, self.now(), keep, namespace=self.namespace, schedule_id=id, progress=progress)

    def backup(self, path: Path, *, progress: Progress | None = None) -> Backup:
        """Write the whole ledger into a file, from one snapshot. Raises InvalidInput where the file cannot be made."""
        from calsched.stores import backup

        return backup.backup(self.store(), path, progress=progress)

    def restore(
        self, path: Path, *, as_new: bool = False, note: str | None = None, progress: Progress | None = None
    ) -> Restored:
        """Read a backup into an empty store; its active schedules are paused, and dispatch is on hold (``backlog``).

        ``as_new`` gives the store another identity. Raises InvalidInput for a file that is no sound backup, Refused for
        a store that is not empty.
        """
        from calsched.stores import restore

        return restore.restore(
            self.store(create=True),
            path,
            as_new=as_new,
            progress=progress,
            now=self.now(),
            principal=self.principal,
            note=note,
        )

    def backlog(
        self, how: How, id: str | None = None, *, namespace: str | None = None, note: str | None = None
    ) -> list[tuple[str, str]]:
        """Decide what becomes of what a restored store missed: ``release``, ``drop`` or ``latest``.

        Of one schedule, of a namespace, or of all; (namespace, id) of those that it was about. Raises Refused.
        """
        from calsched.stores import backlog

        chosen = self.namespace if id is not None else namespace
        return self._control(
            lambda store, conn, ask: backlog.backlog(store, conn, how, namespace=chosen, schedule_id=id, **ask),
            self.ask(note),
        )
