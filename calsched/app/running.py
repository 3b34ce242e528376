"""Running things: one pass (``tick``), or an owner in the foreground (``serve``)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from calsched.app.deploy import Deploy
from calsched.app.files import Sources
from calsched.changes import ChangeSet
from calsched.errors import InvalidInput, Problem, Refused
from calsched.runtime.callables import AllowList

if TYPE_CHECKING:
    from calsched.runtime.tick import TickReport

#: How often applying is tried where other processes change the store meanwhile, as workers that start at once do.
_TRIES = 5
_AT_START, _CHANGED = "applied when serve started", "applied by serve, because the files changed"


class Running(Deploy):
    def allow_list(self) -> AllowList:
        """What schedules may call here. Raises InvalidInput where this host has not said."""
        if self.settings.allow is None:
            hint = "--allow 'jobs:*', or allow = [\"jobs:*\"] in calsched.toml"
            raise InvalidInput([Problem("this host has not said what schedules may call", "allow", hint=hint)])
        return AllowList(self.settings.allow)

    def tick(self, *, limit: float | None = None) -> TickReport:
        """One pass: advance what is due, run what is ready, leave; what was committed, schedule by schedule.

        ``limit`` bounds the pass in seconds. Raises OwnedElsewhere, StoreUnusable.
        """
        from calsched.runtime.tick import tick_once

        allow = self.allow_list()
        self.find_jobs()
        return tick_once(self.store(create=True), self.settings, allow=allow, limit=limit)

    def serve(
        self,
        sources: Sources = (),
        *,
        standby: bool = False,
        on_applied: Callable[[ChangeSet], None] | None = None,
        **options: Any,
    ) -> int:
        """Apply ``sources`` (else the ``schedules`` of the settings), then own the store until SIGTERM or SIGINT.

        The files are applied again when they change (extra ``watch``) and on SIGHUP; bad ones are logged, and what runs
        goes on. ``on_applied`` is told of each time.

        The exit code: 0 stopped, 3 lost its store. Raises InvalidInput for bad files (nothing was applied then),
        OwnedElsewhere unless ``standby``, StoreUnusable. ``options`` are those of ``runtime.serve.serve``.
        """
        from calsched.runtime.reload import Reloader
        from calsched.runtime.serve import serve

        allow = self.allow_list()
        self.find_jobs()
        store = self.store(create=True)
        wanted = sources or self.settings.schedules
        options |= {"allow": allow, "standby": standby}
        if not wanted or isinstance(wanted, bytes):
            self._apply(wanted, _AT_START, on_applied)
            return serve(store, self.settings, **options)
        again = [os.path.abspath(one) for one in wanted]  # a task may have changed the working directory by then
        reloader = Reloader(again, lambda: self._apply(again, _CHANGED, on_applied))
        self._apply(wanted, _AT_START, on_applied)
        with reloader.running():
            return serve(store, self.settings, **options)

    def _apply(self, sources: Sources, note: str, on_applied: Callable[[ChangeSet], None] | None) -> None:
        if not sources:
            return
        found = self._apply_patiently(sources, note)
        if on_applied is not None:
            on_applied(found)

    def _apply_patiently(self, sources: Sources, note: str) -> ChangeSet:
        if self.verifier is not None:
            return self._as_applied(sources)
        for _ in range(_TRIES - 1):
            try:
                return self.apply(sources, note=note)
            except Refused as refused:
                if type(refused) is not Refused:
                    raise
        return self.apply(sources, note=note)

    def _as_applied(self, sources: Sources) -> ChangeSet:
        """Where approvals are asked for, files are only compared: nobody is there to agree to a change."""
        found, _ = self.plan(sources, days=0)
        if found.pending or found.calendars:
            names = ", ".join([*(repr(one.id) for one in found.pending[:5]), *map(repr, found.calendars[:5])])
            raise Refused(
                f"the files differ from the store ({names}), and this host asks for an approval (setting `approvals`):"
                " apply them first with `calsched plan --out FILE` and `calsched apply FILE --approval …`"
            )
        return found
