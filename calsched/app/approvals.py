"""Approvals of controls, where the host asks for them: who verifies, what is needed, and what was given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from calsched.app.core import Core
from calsched.approval import ApprovalNeeded, ApprovalVerifier, LocalOperator, VerificationContext, obtain
from calsched.clock import WallClock
from calsched.settings import Settings
from calsched.stores.control import Approved, Ask

#: One control: what it does in a transaction, asked by somebody.
Act = Callable[[Any, Any, Ask], Any]


class Collected(Exception):
    """Ends a control that was only asked what it needs an approval of."""


class Collector:
    """Stands in for a verifier where somebody wants to know what would have to be approved. It approves nothing."""

    def __init__(self) -> None:
        self.contexts: list[VerificationContext] = []

    def verify(self, credential: Any, context: VerificationContext) -> None:
        return None


class _Nothing(Exception):
    """Ends a transaction that must leave no trace."""


def verifier_of(settings: Settings, clock: WallClock) -> ApprovalVerifier | None:
    """The verifier that the settings name: the local operator, or the holders of trusted keys. Raises InvalidInput."""
    if settings.approvals is None:
        return None
    if settings.approvals == "operator":
        return LocalOperator(clock)
    from calsched.signing import SignedApprovals, TrustedKeys

    return SignedApprovals(TrustedKeys.read(Path(settings.approvals)), clock)


def needed(app: Core, act: Act, ask: Ask) -> VerificationContext | None:
    """What a control needs an approval of; None where it would change nothing. Raises whatever refuses the control."""
    store = app.store(create=True)
    asking: Ask = {**ask, "approved": "ask"}
    try:
        app.write(store, partial(_only_asked, act, store, asking))
    except _Nothing:
        return None
    except ApprovalNeeded as found:
        return found.context
    return None


def _only_asked(act: Act, store: Any, asking: Ask, conn: Any) -> None:
    act(store, conn, asking)
    raise _Nothing


def with_approvals(app: Core, acts: Iterable[Act], ask: Ask) -> Ask:
    """The same ask with an approval for each of the controls; as it is where the host asks for none.

    Verified outside any transaction; the controls judge it again inside theirs. Raises ApprovalDenied.
    """
    verifier: ApprovalVerifier | None = app.verifier
    if verifier is None:
        return ask
    contexts = [_asked(app, context, ask) for act in acts if (context := needed(app, act, ask)) is not None]
    if isinstance(verifier, Collector):
        verifier.contexts = contexts
        raise Collected
    given = {one.subject_digest: Approved(obtain(verifier, app.credential, one), one) for one in contexts}
    return {**ask, "approved": given}


def inside(store: Any, conn: Any, ask: Ask) -> Ask:
    """The same ask at the moment at which its transaction has begun: verifying it and waiting for a lock take time.

    An approval that expired meanwhile does not hold any more (seed 000).
    """
    return {**ask, "now": store.now(conn)}


def _asked(app: Core, context: VerificationContext, ask: Ask) -> VerificationContext:
    """A person at the command line need not say which state version they saw; a signature always does."""
    stated = ask.get("expected_version") is not None
    return context if stated or not isinstance(app.verifier, LocalOperator) else replace(context, expected_version=None)
