"""Signed approvals: what a signature covers, who may sign, and what a wrong file gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calsched.approval import Inside, Ref, VerificationContext, check_inside, subject
from calsched.errors import ApprovalDenied, InvalidInput
from calsched.signing import (
    SignedApproval,
    SignedApprovals,
    SigningKey,
    TrustedKeys,
    read_documents,
    sign,
    write_documents,
)

NOW = 1_773_068_400_000  # 2026-03-09T15:00:00Z
HOUR = 3_600_000
MATERIAL = {"id": "report", "namespace": "ops"}
CONTEXT = VerificationContext(
    action="pause",
    ref=Ref("ops", "report", 3),
    subject_digest=subject(MATERIAL),
    material=MATERIAL,
    epoch=7,
    installation="inst-1",
    expected_version=12,
    requester="bob@desk",
)
ANNA = SigningKey.from_seed(bytes(range(32)))
MALLORY = SigningKey.from_seed(bytes(32))
#: RFC 8032, section 7.1, test 1.
RFC_SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
RFC_PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
OTHER_DIGEST = subject({"id": "other"})


class SetClock:
    def __init__(self, at: int) -> None:
        self.at = at

    def now(self) -> int:
        return self.at

    def monotonic(self) -> int:
        return self.at

    def boot_time(self) -> int | None:
        return None


def verifier(at: int = NOW, **trusted: str) -> SignedApprovals:
    return SignedApprovals(trusted or {ANNA.key_id: "anna"}, SetClock(at))


def signed(context: VerificationContext = CONTEXT, key: SigningKey = ANNA) -> SignedApproval:
    return sign(context, key, now=NOW, lifetime=HOUR, nonce="nonce-0123456789abcdef")


def test_a_key_id_is_the_public_key_of_rfc_8032() -> None:
    from calsched.signing import _base64

    assert SigningKey.from_seed(RFC_SEED).key_id == f"ed25519:{_base64(RFC_PUBLIC)}"


def test_a_signed_approval_of_exactly_this_is_accepted_and_holds_inside() -> None:
    approval = verifier().verify(write_documents([signed()]), CONTEXT)
    assert approval is not None
    assert (approval.principal_id, approval.kind, approval.key_id) == ("anna", "HUMAN", ANNA.key_id)
    assert (approval.nonce, approval.expires_at) == ("nonce-0123456789abcdef", NOW + HOUR)
    inside = Inside(NOW, subject(MATERIAL), epoch=7, state_version=12)
    assert check_inside(approval, CONTEXT, inside) is approval


def test_without_a_credential_there_is_no_approval() -> None:
    assert verifier().verify(None, CONTEXT) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("installation", "inst-2"),
        ("action", "resume"),
        ("namespace", "dev"),
        ("scheduleId", "payroll"),
        ("revision", 4),
        ("revision", None),
        ("expectedVersion", 13),
        ("expectedVersion", None),
        ("subjectDigest", OTHER_DIGEST),
        ("nonce", "nonce-0123456789abcdeX"),
        ("expiresAt", "2027-01-01T00:00:00Z"),
        ("keyId", MALLORY.key_id),
    ],
)
def test_a_document_that_was_changed_after_signing_is_denied(field: str, value: Any) -> None:
    document = {**signed().document(), field: value}
    both = SignedApprovals({ANNA.key_id: "anna", MALLORY.key_id: "mallory"}, SetClock(NOW))
    with pytest.raises(ApprovalDenied, match="the signature does not fit the document"):
        both.verify(document, CONTEXT)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"installation": "inst-2"}, "it is for installation 'inst-1', asked was 'inst-2'"),
        ({"action": "resume"}, "it is for action 'pause', asked was 'resume'"),
        ({"ref": Ref("dev", "report", 3)}, "it is for namespace 'ops', asked was 'dev'"),
        ({"ref": Ref("ops", "payroll", 3)}, "it is for schedule 'report', asked was 'payroll'"),
        ({"ref": Ref("ops", "report", 4)}, "it is for revision 3, asked was 4"),
        ({"expected_version": 13}, "it is for state version 12, asked was 13"),
        ({"expected_version": None}, "needs the expected state version"),
        ({"subject_digest": OTHER_DIGEST}, "it is for digest"),
        ({"requester": None}, "who asks is not known"),
        ({"requester": "anna"}, "anna asks and approves"),
        ({"requester": " ANNA "}, "anna asks and approves"),
        ({"requester": "anna@desk"}, "anna asks and approves"),
        ({"requester_key": ANNA.key_id}, "the requester's own key"),
    ],
)
def test_a_genuine_document_serves_for_nothing_else(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ApprovalDenied) as denied:
        verifier().verify(signed(), replace(CONTEXT, **change))
    assert reason in str(denied.value)
    assert "signature" not in str(denied.value)


def test_two_people_of_one_name_on_two_hosts_are_two_people() -> None:
    trusted = {ANNA.key_id: "anna@north"}
    approval = SignedApprovals(trusted, SetClock(NOW)).verify(signed(), replace(CONTEXT, requester="anna@south"))
    assert approval is not None


def test_it_holds_up_to_its_expiry_and_not_at_it() -> None:
    assert verifier(NOW + HOUR - 1).verify(signed(), CONTEXT) is not None
    with pytest.raises(ApprovalDenied, match="it expired at 2026-03-09T16:00:00Z"):
        verifier(NOW + HOUR).verify(signed(), CONTEXT)


def test_a_key_that_nobody_trusts_approves_nothing() -> None:
    with pytest.raises(ApprovalDenied, match="is not among the trusted ones"):
        verifier().verify(signed(key=MALLORY), CONTEXT)


def test_a_creation_needs_no_state_version() -> None:
    creation = replace(CONTEXT, action="create", expected_version=None, ref=Ref("ops", "report"))
    assert verifier().verify(signed(creation), creation) is not None


def test_of_several_documents_the_fitting_one_counts_and_the_nearest_is_explained() -> None:
    other = replace(CONTEXT, ref=Ref("dev", "payroll", 1), action="cancel")
    text = write_documents([signed(other), signed()])
    assert verifier().verify(text, CONTEXT) is not None
    with pytest.raises(ApprovalDenied) as denied:
        verifier().verify(text, replace(CONTEXT, expected_version=13))
    assert "it is for state version 12, asked was 13" in str(denied.value)
    assert "cancel" not in str(denied.value)


@pytest.mark.parametrize("credential", [7, object(), ["x"]])
def test_what_is_no_document_is_denied(credential: object) -> None:
    with pytest.raises(ApprovalDenied, match="expected an approval document"):
        verifier().verify(credential, CONTEXT)


def test_a_document_is_read_as_it_was_written() -> None:
    assert read_documents(write_documents([signed()])) == (signed(),)
    assert read_documents(signed().document()) == (signed(),)


def test_every_problem_of_a_document_is_told_at_once() -> None:
    bad = {
        "format": "other/1",
        "installation": "",
        "action": "Pause!",
        "namespace": 5,
        "scheduleId": "a\x1b[2J",
        "revision": -1,
        "expectedVersion": True,
        "subjectDigest": "sha256:12",
        "nonce": "short",
        "expiresAt": "2026-03-09 15:00",
        "keyId": "rsa:1",
        "signature": "AAAA",
        "extra": 1,
    }
    with pytest.raises(InvalidInput) as invalid:
        read_documents({"format": "calsched-approval/1-file", "approvals": [signed().document(), bad]}, "a.json")
    assert [p.path for p in invalid.value.problems] == [f"approvals[1].{key}" for key in ("extra", *list(bad)[:-1])]
    assert all(p.file == "a.json" for p in invalid.value.problems)
    assert not any("\x1b" in str(p) for p in invalid.value.problems)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected JSON"),
        ("[]", "expected an object"),
        ('{"format": 1, "format": 2}', "a key stands there twice"),
        ('{"format": NaN}', "NaN is no JSON"),
        ("[" * 100_000, "nested too deep"),
        (b"\xff\xfe", "expected JSON"),
        ('{"format": "calsched-approval/1-file", "approvals": []}', "expected a list of approvals"),
    ],
)
def test_a_file_that_is_none_says_what_it_is(text: str | bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_documents(text, "a.json")


def test_a_private_key_is_written_for_its_owner_only_and_never_over_another_file(tmp_path: Path) -> None:
    path = tmp_path / "anna.key"
    ANNA.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.read(path) == ANNA
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="never overwritten"):
        MALLORY.write(path)
    assert path.read_bytes() == before


def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "anna.key"
    ANNA.write(path)
    os.chmod(path, 0o644)
    with pytest.raises(InvalidInput, match="chmod 600"):
        SigningKey.read(path)


def test_a_key_file_whose_halves_differ_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "anna.key"
    ANNA.write(path)
    path.write_text(path.read_text().replace(ANNA.key_id, MALLORY.key_id))
    with pytest.raises(InvalidInput, match="is not that of"):
        SigningKey.read(path)


def test_a_key_is_not_shown_by_repr() -> None:
    assert repr(ANNA) == f"SigningKey('{ANNA.key_id}')"


def test_trusted_keys_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "trusted.json"
    path.write_text(json.dumps({"format": "calsched-trusted-keys/1", "keys": {ANNA.key_id: "anna"}}))
    assert TrustedKeys.read(path) == {ANNA.key_id: "anna"}


def test_every_problem_of_the_trusted_keys_is_told_at_once(tmp_path: Path) -> None:
    keys = {"ed25519:short": "anna", ANNA.key_id: "", MALLORY.key_id: 4}
    plain = {"format": "calsched-trusted-keys/1", "keys": keys, "x": 1}
    with pytest.raises(InvalidInput) as invalid:
        TrustedKeys.from_plain(plain, "trusted.json")
    assert len(invalid.value.problems) == 4
    with pytest.raises(InvalidInput, match="cannot be read: no such file"):
        TrustedKeys.read(tmp_path / "none.json")


def test_a_key_id_has_one_spelling_only() -> None:
    last = ANNA.key_id[-1]
    twin = ANNA.key_id[:-1] + chr(ord(last) + 1)  # differs in bits that base64 throws away
    with pytest.raises(InvalidInput):
        TrustedKeys.from_plain({"format": "calsched-trusted-keys/1", "keys": {twin: "anna"}})


def test_a_missing_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from calsched import signing\n"
        "try: signing.SigningKey.generate()\n"
        "except signing.SigningUnavailable as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "apscheduler-calsched[signing]" in done.stdout
