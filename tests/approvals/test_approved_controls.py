"""Approvals inside the transactions of the store: an approval serves the very control it was given for, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from calsched.approval import ApprovalNeeded, LocalOperator, Ref, VerificationContext, control_material, subject
from calsched.errors import ApprovalDenied
from calsched.model import Definition, Task
from calsched.signing import SignedApprovals, SigningKey, sign
from calsched.stores import control
from calsched.stores.control import Approved
from calsched.stores.engine import Store
from calsched.stores.tables import owners

NOW = 1_773_068_400_000  # 2026-03-09T15:00:00Z
ANNA = SigningKey.from_seed(bytes(range(32)))


class SetClock:
    def __init__(self, at: int = NOW) -> None:
        self.at = at

    def now(self) -> int:
        return self.at

    def monotonic(self) -> int:
        return self.at

    def boot_time(self) -> int | None:
        return None


REPORT = Definition("report", {"kind": "interval", "intervalMs": 3_600_000}, Task(callable="jobs:report"))


class Office:
    """A store, Anna who signs, and Bob who asks."""

    def __init__(self, store: Store, clock: SetClock) -> None:
        self.store, self.clock = store, clock

    def epoch(self) -> int:
        with self.store.read() as conn:
            return owners.newest(conn, self.store.tables)

    def context(
        self,
        action: str,
        *,
        definition: Any = None,
        version: int | None = None,
        revision: int | None = 1,
        **arguments: Any,
    ) -> VerificationContext:
        ref = Ref("default", "report", revision)
        material = control_material(ref, action, arguments, definition or self.view().digest)
        return VerificationContext(
            action, ref, subject(material), material, self.epoch(), self.store.installation, version, requester="bob"
        )

    def approved(self, context: VerificationContext, **signing: Any) -> Approved:
        document = sign(context, ANNA, now=self.clock.at, **signing)
        approval = SignedApprovals({ANNA.key_id: "anna"}, self.clock).verify(document, context)
        assert approval is not None
        return Approved(approval, context)

    def view(self) -> Any:
        with self.store.read() as conn:
            from calsched.stores.tables import schedules

            row = schedules.by_id(conn, self.store.tables, "default", "report")
            assert row is not None
            return control.view(self.store, conn, row.pk)

    def do(self, verb: Callable[..., Any], *given: Any, approved: Any = None, **arguments: Any) -> Any:
        with self.store.write() as conn:
            ask = {"now": self.clock.at, "principal": "bob", "approved": approved}
            return verb(self.store, conn, *(given or ("default", "report")), **arguments, **ask)

    def decisions(self) -> list[Any]:
        with self.store.read() as conn:
            t = self.store.tables.decisions
            return list(conn.execute(t.select().order_by(t.c.pk)).all())


@pytest.fixture
def office() -> Iterator[Office]:
    clock = SetClock()
    store = Store("sqlite://", clock=clock)
    store.open()
    yield Office(store, clock)
    store.dispose()


@pytest.fixture
def made(office: Office) -> Office:
    office.do(control.create, REPORT)
    return office


def test_a_creation_keeps_who_approved_it_and_on_what(office: Office) -> None:
    context = office.context("create", definition=REPORT.material(), revision=None)
    approved = office.approved(context, nonce="nonce-0123456789")
    view = office.do(control.create, REPORT, approved=approved)
    assert view.created
    [decision] = office.decisions()
    assert (decision.principal, decision.nonce) == ("anna", "nonce-0123456789")
    assert f'"subjectDigest":"{context.subject_digest}"' in decision.evidence


def test_an_approved_pause_is_made_once(made: Office) -> None:
    approved = made.approved(made.context("pause", version=1))
    assert made.do(control.pause, approved=approved).state == "paused"
    made.do(control.resume)
    with pytest.raises(ApprovalDenied) as denied:
        made.do(control.pause, approved=approved)
    assert "it was used before" in str(denied.value)
    assert "it is for state version 1, there is version 3 now" in str(denied.value)
    assert made.view().state == "enabled"


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        (control.resume, {}),
        (control.disable, {}),
        (control.cancel, {}),
        (control.retire, {}),
        (control.delete, {}),
        (control.pause, {"until": NOW + 1}),
        (control.rename, {"new_id": "other"}),
    ],
)
def test_an_approval_of_a_pause_serves_nothing_else(made: Office, verb: Any, arguments: dict[str, Any]) -> None:
    approved = made.approved(made.context("pause", version=1))
    if verb is control.resume:
        made.do(control.pause)
    before = len(made.decisions())
    given = ("default", "report", arguments.pop("new_id")) if "new_id" in arguments else ()
    with pytest.raises(ApprovalDenied):
        made.do(verb, *given, approved=approved, **arguments)
    assert len(made.decisions()) == before


@pytest.mark.parametrize(
    ("verb", "action", "said", "done"),
    [
        (control.pause, "pause", {"until": NOW + 60_000}, {"until": NOW + 60_000}),
        (control.disable, "disable", {}, {}),
        (control.cancel, "cancel", {}, {}),
        (control.retire, "retire", {}, {}),
        (control.delete, "delete", {"cancelPending": True}, {"cancel_pending": True}),
        (control.delete, "delete", {}, {}),
    ],
)
def test_each_control_takes_an_approval_of_itself(
    made: Office, verb: Any, action: str, said: dict[str, Any], done: dict[str, Any]
) -> None:
    made.do(verb, approved=made.approved(made.context(action, version=1, **said)), **done)
    assert made.decisions()[-1].principal == "anna"


def test_an_approval_ends_with_the_epoch_that_it_was_verified_in(made: Office) -> None:
    approved = made.approved(made.context("pause", version=1))
    with made.store.write() as conn:
        from calsched.stores import recover

        recover.register_owner(made.store, conn, "w", "h", 1, NOW, 30_000)
    with pytest.raises(ApprovalDenied, match="verified in epoch 0, this is epoch 1"):
        made.do(control.pause, approved=approved)


def test_an_approval_that_expires_while_waiting_for_the_lock_is_denied(made: Office) -> None:
    approved = made.approved(made.context("pause", version=1), lifetime=1000)
    made.clock.at += 1000
    with pytest.raises(ApprovalDenied, match="it expired at"):
        made.do(control.pause, approved=approved)


def test_material_that_is_not_what_was_approved_is_not_registered(office: Office) -> None:
    context = office.context("create", definition=REPORT.material(), revision=None)
    other = Definition("report", {"kind": "interval", "intervalMs": 1000}, Task(callable="jobs:report"))
    with pytest.raises(ApprovalDenied, match="the material is"):
        office.do(control.create, other, approved=office.approved(context))
    with pytest.raises(ApprovalDenied):
        office.do(control.create, REPORT, approved=office.approved(context), paused=True)
    assert office.decisions() == []


def test_an_update_is_approved_with_its_new_material(made: Office) -> None:
    changed = Definition("report", {"kind": "interval", "intervalMs": 1000}, Task(callable="jobs:report"))
    context = made.context("update", definition=changed.material(), version=1)
    assert made.do(control.update, changed, approved=made.approved(context)).revision == 2


def test_a_rename_and_the_deletion_of_a_namespace_use_a_nonce_once(made: Office) -> None:
    context = made.context("rename", version=1, to="figures")
    made.do(control.rename, "default", "report", "figures", approved=made.approved(context))
    made.do(control.create, REPORT.__class__("other", REPORT.trigger, REPORT.task))
    with made.store.read() as conn:
        t = made.store.tables.schedules
        there = [[row.id, row.state_version] for row in conn.execute(t.select().order_by(t.c.id))]
    ref = Ref("default", "*")
    material = control_material(ref, "deleteNamespace", {}, there)
    context = VerificationContext(
        "deleteNamespace", ref, subject(material), material, made.epoch(), made.store.installation, requester="bob"
    )
    approved = made.approved(context)
    assert sorted(made.do(control.delete_namespace, "default", approved=approved)) == ["figures", "other"]


def test_the_local_operator_is_recorded_without_a_nonce(made: Office) -> None:
    operator = LocalOperator(made.clock)
    for verb, action, version in ((control.pause, "pause", 1), (control.resume, "resume", 2)):
        context = made.context(action, version=version)
        approval = operator.verify(None, context)
        assert approval is not None
        made.do(verb, approved=Approved(approval, context))
    assert [d.nonce for d in made.decisions()] == [None] * 3
    assert made.decisions()[-1].principal == operator.principal


def test_what_a_control_needs_is_found_out_without_doing_it(made: Office) -> None:
    with pytest.raises(ApprovalNeeded) as needed:
        made.do(control.pause, approved="ask", until=NOW + 5)
    assert needed.value.context == made.context("pause", version=1, until=NOW + 5)
    with pytest.raises(ApprovalNeeded) as creation:
        made.do(control.create, Definition("new", REPORT.trigger, REPORT.task), approved="ask")
    assert creation.value.context.ref == Ref("default", "new")
    assert len(made.decisions()) == 1
    assert made.view().state == "enabled"


def test_what_exists_already_needs_no_approval(made: Office) -> None:
    assert made.do(control.create, REPORT, approved="ask").created is False


def test_of_several_approvals_the_one_of_this_control_counts(made: Office) -> None:
    contexts = [made.context("pause", version=1), made.context("disable", version=1)]
    given = {context.subject_digest: made.approved(context) for context in contexts}
    with pytest.raises(ApprovalDenied, match="and none was given"):
        made.do(control.cancel, approved=given)
    assert made.do(control.disable, approved=given).state == "disabled"


def test_automatic_moves_need_no_approval(made: Office) -> None:
    made.do(control.pause, until=NOW + 1)
    made.clock.at += 3_600_000
    from calsched.stores.advance import advance

    with made.store.write() as conn:
        advance(made.store, conn, made.clock.at)
    assert made.view().state == "enabled"
