"""Ready tasks: work that a host does. Claim, keep alive, say how it ended (``stores.ready``)."""

from __future__ import annotations

from typing import Any

from calsched.app.core import Core
from calsched.stores import ready
from calsched.stores.ready import ReadyTask, Reported

LEASE = 60_000


class Hosted(Core):
    def ready_claim(self, *, task_class: str | None = None, limit: int = 1, lease: int = LEASE) -> list[ReadyTask]:
        """Take up to ``limit`` ready tasks of this app's namespace, oldest first; they count as begun.

        ``lease`` in milliseconds: a task whose host is not heard of for so long is interrupted.
        """
        store = self.store()
        return self.write(
            store,
            lambda conn: ready.claim(
                store,
                conn,
                now=store.now(conn),
                lease_ms=lease,
                limit=limit,
                namespace=self.namespace,
                task_class=task_class,
            ),
        )

    def ready_heartbeat(self, occurrence: int, token: str, *, lease: int = LEASE) -> bool:
        """Renew the lease; whether the task is asked to stop. Raises Fenced when the claim is over."""
        store = self.store()
        return self.write(
            store,
            lambda conn: ready.heartbeat(store, conn, occurrence, token, now=store.now(conn), lease_ms=lease),
        )

    def ready_complete(self, occurrence: int, token: str, *, result: Any = None) -> Reported:
        """The task is done. ``result`` is a JSON value. A report without the claim is kept as evidence only."""
        store = self.store()
        return self.write(
            store, lambda conn: ready.complete(store, conn, occurrence, token, now=store.now(conn), result=result)
        )

    def ready_fail(self, occurrence: int, token: str, *, kind: str = "Failed", message: str = "") -> Reported:
        """The task failed; the failure policy says what follows."""
        store = self.store()
        return self.write(
            store,
            lambda conn: ready.fail(store, conn, occurrence, token, now=store.now(conn), kind=kind, message=message),
        )

    def ready_give_back(self, occurrence: int, token: str) -> bool:
        """The host did not begin after all; whether the claim still was its own."""
        store = self.store()
        return self.write(
            store, lambda conn: ready.give_back(store, conn, occurrence, token, now=store.now(conn))
        )
