"""The part of the app that the others stand on: settings, the store that is opened once, whose hand it is."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

from calsched import settings as host
from calsched.approval import os_account
from calsched.clock import Clock, SystemClock
from calsched.settings import Settings
from calsched.stores import conflicts
from calsched.stores.engine import Store

T = TypeVar("T")


class Core:
    """One host's view of one store. Cheap to make: the database is looked at by the first call that needs it."""

    def __init__(
        self,
        url: str | None = None,
        *,
        engine: Any = None,
        store: Store | None = None,
        namespace: str | None = None,
        clock: Clock | None = None,
        allow: Iterable[str] | None = None,
        principal: str | None = None,
        verifier: Any = None,
        credential: Any = None,
        settings: Settings | None = None,
        connection: Any = None,
    ) -> None:
        """``connection``: of the store's database, in a transaction that the caller has begun: controls join it.

        They take effect when the caller commits, together with rows of its own. ``App(engine=engine, connection=conn)``
        is made for one such transaction; the tables have to be there already, and what is looked at is what has
        committed.
        """
        known = settings or Settings()
        said: Mapping[str, Any] = {
            "store": url,
            "namespace": namespace,
            "allow": None if allow is None else tuple(allow),
        }
        self.settings = replace(known, **{key: value for key, value in said.items() if value is not None})
        self.clock: Clock = clock or (store.clock if store is not None else SystemClock())
        self.principal = principal or local_user()
        self.verifier = verifier if verifier is not None else self._verifier()
        self.credential = credential  # what its verifier is shown: an approval file, or what a host's own takes
        self.connection = connection
        self._given, self._engine, self._opened = store, engine, False
        self._made: Store | None = store

    def _verifier(self) -> Any:
        """Who approves controls here, by the settings; None where nobody has to."""
        from calsched.app.approvals import verifier_of

        return verifier_of(self.settings, self)  # approvals expire by the clock that judges them

    @classmethod
    def from_settings(cls, settings: Settings, **options: Any) -> Self:
        return cls(settings=settings, **options)

    @property
    def namespace(self) -> str:
        return self.settings.namespace

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the store's connections back; a store that was handed in stays open."""
        if self._made is not None and self._given is None:
            self._made.dispose()
            self._made, self._opened = None, False

    def store(self, *, create: bool = False) -> Store:
        """The store, opened. Only what writes schedules may ``create`` one where there is none."""
        if self._made is None:
            self._made = self._make()
        if not self._opened:
            if self.connection is not None:
                self._made.join(self.connection)
            self._made.open(create=create)
            self._opened = True
        return self._made

    def write(self, store: Store, work: Callable[[Any], T]) -> T:
        """One control in a transaction of its own, done again where it lost against another; or in the caller's."""
        return conflicts.write(store, work, self.connection)

    def _make(self) -> Store:
        known = self.settings
        options: dict[str, Any] = {
            "prefix": known.table_prefix,
            "schema": known.table_schema,
            "clock": self.clock,
            "default_zone": known.timezone,
            "zone_source": known.zone_source,
        }
        if self._engine is not None:
            return Store(engine=self._engine, **options)
        return Store(known.store, **options)

    def now(self) -> int:
        """What time it is where it is decided what is due: on servers by the database's clock, once it is open."""
        if self._made is None or not self._opened:
            return self.clock.now()
        return self._made.instant(self.connection)

    def find_jobs(self) -> None:
        """Let callables be imported from the places that the settings name."""
        for place in reversed(self.settings.python_path):
            if str(place) not in sys.path:
                sys.path.insert(0, str(place))

    def serve_command(self, callables: Iterable[str] = ()) -> str:
        """What to type so that this store has an owner. ``callables`` are those that it would have to allow."""
        known = self.settings
        modules = sorted({ref.partition(":")[0] for ref in callables if ref})
        if "__main__" in modules:
            return "python YOUR_SCRIPT.py  # jobs of __main__ run in the script that added them, nowhere else"
        words = ["calsched"]
        from_file = known.file is not None and _stores_of(known.file) == known.store
        if known.file is not None:
            words += ["--config", str(known.file)]
        if not from_file:
            words += ["--store", host.shown_url(known.store)]
        words.append("serve")
        if known.allow is None:
            for module in modules or ("MODULE",):
                words += ["--allow", f"{module}:*"]
        return shlex.join(words)


def _stores_of(file: Path) -> str:
    return host.load(file.parent, {}).store


def local_user() -> str:
    """The operating system's user, who is the author of a control at this machine."""
    return os_account()
