"""Approvals of people for what changes schedules: what a verifier is asked and answers, and whether that still holds.

A host supplies an ``ApprovalVerifier``. It is asked outside the transaction, because it may talk to other systems;
``check_inside`` then compares its answer, inside the transaction, with what is true there: the digest of the material,
the epoch, the expected state version, the time, and that the nonce was never used (the rule is of seed 000, "Define and
approve a schedule").
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol

from calsched.clock import WallClock, to_rfc3339
from calsched.errors import ApprovalDenied, Refused
from calsched.model import digest

#: How long the local operator's own approval holds: long enough for one command that waits for a lock.
LOCAL_LIFETIME: Final = 60_000


class Ref(NamedTuple):
    """Which schedule a control is about; the revision is None where the control makes a new one."""

    namespace: str
    schedule_id: str
    revision: int | None = None

    def __str__(self) -> str:
        at = f" revision {self.revision}" if self.revision is not None else ""
        return f"{self.schedule_id!r} in {self.namespace!r}{at}"


@dataclass(frozen=True, slots=True)
class VerificationContext:
    """What is to be approved, whole.

    ``material`` is the resolved stored material (defaults and calendar versions included) and ``subject_digest`` the
    digest of its canonical JSON (``subject``). ``expected_version`` is the state version that the requester saw; None
    for a creation. ``requester`` names who asks, ``requester_key`` the key that they hold, where they hold one.
    """

    action: str
    ref: Ref
    subject_digest: str
    material: Mapping[str, Any]
    epoch: int
    installation: str
    expected_version: int | None = None
    requester: str | None = None
    requester_key: str | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """A verifier's answer: this person approved exactly this digest, until then.

    ``expires_at`` is an instant; from it on the approval does not hold. A ``nonce`` is used once in a store.
    """

    principal_id: str
    evidence_ref: str
    subject_digest: str
    expires_at: int
    nonce: str | None = None
    key_id: str | None = None
    kind: Literal["HUMAN"] = "HUMAN"

    def evidence(self) -> dict[str, Any]:
        """What a decision keeps of it, as plain JSON values."""
        return {
            "kind": self.kind,
            "principal": self.principal_id,
            "evidence": self.evidence_ref,
            "subjectDigest": self.subject_digest,
            "expiresAt": to_rfc3339(self.expires_at),
            **({"nonce": self.nonce} if self.nonce is not None else {}),
            **({"keyId": self.key_id} if self.key_id is not None else {}),
        }


class ApprovalVerifier(Protocol):
    """Supplied by the host. Called outside transactions, from any thread."""

    def verify(self, credential: Any, context: VerificationContext) -> Approval | None:
        """An approval of exactly this context, or None; may raise ApprovalDenied to say why not."""


class Inside(NamedTuple):
    """What is true inside the transaction, read there."""

    now: int
    subject_digest: str
    epoch: int
    state_version: int | None = None  # None: the schedule does not exist
    nonce_used: bool = False


class ApprovalNeeded(Refused):
    """What a control needs an approval of, found out without doing anything. ``context`` is what to ask a verifier."""

    def __init__(self, context: VerificationContext) -> None:
        self.context = context
        super().__init__(f"{context.action} of {context.ref} needs an approval of {context.subject_digest}")


def subject(material: Mapping[str, Any]) -> str:
    """The digest that an approval is about: over all of the material, description and declaring owner included."""
    return digest(material)


def control_material(ref: Ref, action: str, arguments: Mapping[str, Any], definition: Any) -> dict[str, Any]:
    """The material of a control: what it does, to which revision, how.

    ``definition`` is the resolved material that ``create`` and ``update`` register, and the stored digest of the live
    revision for every other control. Arguments that are not given (None, False) are left out; ``ref.revision`` is the
    live revision, and None where there is no schedule yet.
    """
    return {
        "format": 1,
        "action": action,
        "namespace": ref.namespace,
        "id": ref.schedule_id,
        "revision": ref.revision,
        "arguments": {name: value for name, value in arguments.items() if value is not None and value is not False},
        "definition": definition,
    }


def obtain(verifier: ApprovalVerifier, credential: Any, context: VerificationContext) -> Approval:
    """The verifier's approval of this context. Raises ApprovalDenied where it gives none."""
    approval = verifier.verify(credential, context)
    if approval is None:
        raise ApprovalDenied(
            f"{context.action} of {context.ref} needs an approval of {context.subject_digest}, and none was given"
        )
    return approval


def check_inside(approval: Approval | None, context: VerificationContext, inside: Inside) -> Approval:
    """The approval, if it still holds. Raises ApprovalDenied with every reason why it does not."""
    if approval is None:
        raise ApprovalDenied(f"{context.action} of {context.ref} needs an approval, and none was given")
    reasons = [*_of_person(approval), *_of_subject(approval, context, inside), *_of_moment(approval, context, inside)]
    if reasons:
        who = approval.principal_id or "nobody"
        raise ApprovalDenied(
            f"the approval by {who} of {context.action} of {context.ref} does not hold: {'; '.join(reasons)}"
        )
    return approval


def _of_person(approval: Approval) -> list[str]:
    reasons = []
    if approval.kind != "HUMAN":
        reasons.append(f"it is of kind {approval.kind!r}, not HUMAN")
    if not approval.principal_id.strip():
        reasons.append("it names no person")
    if not approval.evidence_ref.strip():
        reasons.append("it names no evidence")
    return reasons


def _of_subject(approval: Approval, context: VerificationContext, inside: Inside) -> list[str]:
    reasons = []
    if approval.subject_digest != context.subject_digest:
        reasons.append(f"it is for {approval.subject_digest}, asked was {context.subject_digest}")
    if inside.subject_digest != context.subject_digest:
        reasons.append(f"the material is {inside.subject_digest} now: look again and have that approved")
    if context.expected_version is not None and context.expected_version != inside.state_version:
        actual = "no schedule" if inside.state_version is None else f"version {inside.state_version}"
        reasons.append(f"it is for state version {context.expected_version}, there is {actual} now")
    return reasons


def _of_moment(approval: Approval, context: VerificationContext, inside: Inside) -> list[str]:
    reasons = []
    if context.epoch != inside.epoch:
        reasons.append(f"it was verified in epoch {context.epoch}, this is epoch {inside.epoch}")
    if inside.now >= approval.expires_at:
        reasons.append(f"it expired at {to_rfc3339(approval.expires_at)}, it is {to_rfc3339(inside.now)}")
    if inside.nonce_used:
        reasons.append("it was used before, and an approval is good for one change")
    return reasons


class LocalOperator:
    """The person at this machine, by the account that the process runs under: the verifier of the command line.

    The account is asked of the operating system, never of the environment, which anyone can set.
    """

    def __init__(self, clock: WallClock, *, lifetime: int = LOCAL_LIFETIME) -> None:
        self._clock, self._lifetime = clock, lifetime
        self.principal = os_account()

    def verify(self, credential: Any, context: VerificationContext) -> Approval | None:
        """Approves what the operator asks for; a credential, where given, must be the operator's own name."""
        if credential is not None and credential != self.principal:
            return None
        return Approval(
            principal_id=self.principal,
            evidence_ref=f"os-account:{self.principal}@{socket.gethostname()}",
            subject_digest=context.subject_digest,
            expires_at=self._clock.now() + self._lifetime,
        )


def os_account() -> str:
    """The name of the account that this process runs under, or its number."""
    if not hasattr(os, "getuid"):  # Windows has no numbers to ask for
        return os.getlogin()
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's account without an entry
        return f"uid:{os.getuid()}"
