"""The tables themselves: which schema the store has, the steps to the newest one, and whether something differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calsched.app.core import Core
from calsched.stores import founding, sqlite
from calsched.stores.engine import Store

if TYPE_CHECKING:
    from calsched.stores.upgrade import Current


class Database(Core):
    """Alembic is imported by these methods only."""

    def schema_current(self) -> Current:
        """Where the store's schema stands; an old one is told, not refused."""
        from calsched.stores import upgrade

        return upgrade.current(self._as_it_is())

    def schema_upgrade(self) -> list[str]:
        """Take the missing steps; their names. Stop the owners first."""
        from calsched.stores import upgrade

        done = upgrade.upgrade(self._as_it_is())
        self.close()
        return done

    def schema_check(self) -> list[str]:
        """How the tables differ from those that this program knows; empty when they do not."""
        from calsched.stores import upgrade

        return upgrade.check(self._as_it_is())

    def _as_it_is(self) -> Store:
        """The store, without the look at its version that opening it takes."""
        if self._made is None:
            self._made = self._make()
        store = self._made
        if store.path is not None and not self._opened and not sqlite.look(store.path, store.tables.meta.name):
            founding.refuse_absent(store.url_shown, False)
        return store
