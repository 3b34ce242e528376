"""Whether an approval still holds inside the transaction, and the verifier of the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from calsched.approval import (
    Approval,
    Inside,
    LocalOperator,
    Ref,
    VerificationContext,
    check_inside,
    control_material,
    obtain,
    os_account,
    subject,
)
from calsched.errors import ApprovalDenied
from calsched.model import Definition, Task

NOW = 1_773_068_400_000  # 2026-03-09T15:00:00Z
MATERIAL = {"id": "report", "namespace": "ops", "trigger": {"kind": "once"}}
CONTEXT = VerificationContext(
    action="pause",
    ref=Ref("ops", "report", 3),
    subject_digest=subject(MATERIAL),
    material=MATERIAL,
    epoch=7,
    installation="inst-1",
    expected_version=12,
    requester="bob",
)
APPROVAL = Approval(
    principal_id="anna", evidence_ref="ticket-9", subject_digest=subject(MATERIAL), expires_at=NOW + 1, nonce="n"
)
INSIDE = Inside(now=NOW, subject_digest=subject(MATERIAL), epoch=7, state_version=12)


class SetClock:
    def __init__(self, at: int) -> None:
        self.at = at

    def now(self) -> int:
        return self.at

    def monotonic(self) -> int:
        return self.at

    def boot_time(self) -> int | None:
        return None


def test_an_approval_of_exactly_this_holds_and_is_returned() -> None:
    assert check_inside(APPROVAL, CONTEXT, INSIDE) is APPROVAL


OTHER = subject({"id": "other"})


@pytest.mark.parametrize(
    ("approval", "inside", "reason"),
    [
        ({"kind": "MACHINE"}, {}, "not HUMAN"),
        ({"principal_id": " "}, {}, "names no person"),
        ({"evidence_ref": ""}, {}, "names no evidence"),
        ({"subject_digest": OTHER}, {}, f"it is for {OTHER}"),
        ({}, {"subject_digest": OTHER}, f"the material is {OTHER} now"),
        ({}, {"state_version": 13}, "it is for state version 12, there is version 13 now"),
        ({}, {"state_version": None}, "there is no schedule now"),
        ({}, {"epoch": 8}, "verified in epoch 7, this is epoch 8"),
        ({}, {"now": NOW + 1}, "it expired at 2026-03-09T15:00:00.001Z"),
        ({}, {"nonce_used": True}, "it was used before"),
    ],
)
def test_what_changed_since_the_verification_denies_it(
    approval: dict[str, Any], inside: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ApprovalDenied) as denied:
        check_inside(replace(APPROVAL, **approval), CONTEXT, INSIDE._replace(**inside))
    assert reason in str(denied.value)
    assert "pause of 'report' in 'ops' revision 3" in str(denied.value)


def test_every_reason_is_given_at_once() -> None:
    with pytest.raises(ApprovalDenied) as denied:
        check_inside(APPROVAL, CONTEXT, Inside(NOW + 5, OTHER, epoch=1, state_version=1, nonce_used=True))
    assert str(denied.value).count("; ") == 4


def test_a_person_need_not_state_a_version() -> None:
    unstated = replace(CONTEXT, expected_version=None)
    assert check_inside(APPROVAL, unstated, INSIDE._replace(state_version=99)) is APPROVAL


def test_no_approval_is_no_approval() -> None:
    with pytest.raises(ApprovalDenied, match="needs an approval, and none was given"):
        check_inside(None, CONTEXT, INSIDE)


def test_a_verifier_that_answers_nothing_denies() -> None:
    class Nobody:
        def verify(self, credential: Any, context: VerificationContext) -> Approval | None:
            return None

    with pytest.raises(ApprovalDenied, match="none was given"):
        obtain(Nobody(), "secret", CONTEXT)


def test_the_digest_of_a_creation_covers_defaults_and_words_for_people() -> None:
    definition = Definition("report", {"kind": "interval", "intervalMs": 60_000}, Task(callable="jobs:run"))
    assert "graceSeconds" in definition.material()
    changed = [replace(definition, grace=1), replace(definition, description="x"), replace(definition, owner="ops")]
    assert len({subject(d.material()) for d in [definition, *changed]}) == 4


def test_the_digest_of_a_control_changes_with_each_part_of_it() -> None:
    ref = Ref("ops", "report", 3)
    base = control_material(ref, "pause", {"until": None}, "sha256:a")
    others = [
        control_material(ref, "resume", {"until": None}, "sha256:a"),
        control_material(ref, "pause", {"until": 5}, "sha256:a"),
        control_material(ref, "pause", {"until": None}, "sha256:b"),
        control_material(ref._replace(revision=4), "pause", {"until": None}, "sha256:a"),
        control_material(ref._replace(namespace="dev"), "pause", {"until": None}, "sha256:a"),
        control_material(ref._replace(schedule_id="x"), "pause", {"until": None}, "sha256:a"),
    ]
    assert len({subject(m) for m in [base, *others]}) == 7


def test_the_local_operator_is_the_account_and_not_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "somebody-else")
    monkeypatch.setenv("USER", "somebody-else")
    operator = LocalOperator(SetClock(NOW))
    approval = operator.verify(None, CONTEXT)
    assert approval is not None
    assert approval.principal_id == operator.principal == os_account() != "somebody-else"
    assert check_inside(approval, CONTEXT, INSIDE) is approval
    assert approval.expires_at == NOW + 60_000
    assert approval.nonce is None


def test_the_local_operator_speaks_for_nobody_else() -> None:
    assert LocalOperator(SetClock(NOW)).verify("anna-from-accounting", CONTEXT) is None


def test_a_decision_keeps_the_evidence_as_json_values() -> None:
    assert replace(APPROVAL, key_id="ed25519:k").evidence() == {
        "kind": "HUMAN",
        "principal": "anna",
        "evidence": "ticket-9",
        "subjectDigest": subject(MATERIAL),
        "expiresAt": "2026-03-09T15:00:00.001Z",
        "nonce": "n",
        "keyId": "ed25519:k",
    }
