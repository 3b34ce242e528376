"""Signed approvals (Ed25519): one person signs what another person's command presents.

An approval document says which installation, schedule, action, state version and digest it is for, until when, and
carries a nonce; the signature covers all of it and the purpose. The keys that may sign are listed in a file, key id
to principal; a key id is the public key itself. The approver must not be the requester. Needs ``cryptography``.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calsched.approval import Approval, Ref, VerificationContext
from calsched.clock import LAST_INSTANT, WallClock, to_millis, to_rfc3339
from calsched.errors import ApprovalDenied, CalschedError, InvalidInput, Problem
from calsched.model import canonical_json
from calsched.reading import Unreadable, content

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ed25519

#: What the signature is for; signed first, so that no other document of the same key can pass for an approval.
PURPOSE: Final = "calsched-approval/1"
KEY_FORMAT: Final = "calsched-key/1"
TRUST_FORMAT: Final = "calsched-trusted-keys/1"
DEFAULT_LIFETIME: Final = 24 * 3_600_000
MAX_FILE_BYTES: Final = 8 * 1024 * 1024
_KEY_ID: Final = re.compile(r"ed25519:[A-Za-z0-9_\-]{43}")
_NONCE: Final = re.compile(r"[A-Za-z0-9_\-]{16,128}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
#: Controls of what has no state version, or of many schedules whose versions are part of the digest.
_WITHOUT_VERSION: Final = ("apply", "backlog", "create", "deleteNamespace", "setCalendars")
_ACTION: Final = re.compile(r"[a-z][A-Za-z_\-]{0,31}")
_EXPIRY: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")


class SigningUnavailable(CalschedError):
    def __init__(self) -> None:
        super().__init__(
            "signed approvals need the extra `signing`, which brings cryptography:"
            " install apscheduler-calsched[signing]"
        )


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise SigningUnavailable from None
    return ed25519


# --- keys ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class SigningKey:
    """A private key; its ``key_id`` is what others put into their trusted keys."""

    seed: bytes
    key_id: str

    def __repr__(self) -> str:
        return f"SigningKey({self.key_id!r})"

    @classmethod
    def from_seed(cls, seed: bytes) -> SigningKey:
        """From 32 secret bytes."""
        private: ed25519.Ed25519PrivateKey = _ed25519().Ed25519PrivateKey.from_private_bytes(seed)
        return cls(seed, f"ed25519:{_base64(private.public_key().public_bytes_raw())}")

    @classmethod
    def generate(cls) -> SigningKey:
        return cls.from_seed(secrets.token_bytes(32))

    def sign(self, message: bytes) -> bytes:
        private: ed25519.Ed25519PrivateKey = _ed25519().Ed25519PrivateKey.from_private_bytes(self.seed)
        return private.sign(message)

    def write(self, path: Path) -> None:
        """A file that only its owner can read. Raises InvalidInput where there is one already."""
        text = json.dumps({"format": KEY_FORMAT, "keyId": self.key_id, "privateKey": _base64(self.seed)}, indent=2)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise InvalidInput([Problem("exists already; a key is never overwritten", file=str(path))]) from None
        except OSError as error:
            raise InvalidInput([Problem(f"cannot be written: {error.strerror}", file=str(path))]) from None
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")

    @classmethod
    def read(cls, path: Path) -> SigningKey:
        """Raises InvalidInput: no such file, readable by others, or no key of ours."""
        plain = _load(path)
        reader = _Reader(plain, ("format", "keyId", "privateKey"), str(path))
        if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            reader.fail("", "others can read this private key", f"chmod 600 {path}")
        reader.constant("format", KEY_FORMAT)
        key_id = reader.text("keyId", _KEY_ID, "a key id such as ed25519:… of 43 characters")
        seed = reader.bytes("privateKey", 32)
        reader.check()
        key = cls.from_seed(seed)
        if key.key_id != key_id:
            raise InvalidInput([Problem(f"the private key is not that of {key_id}", "keyId", str(path))])
        return key


class TrustedKeys(dict[str, str]):
    """Key id to principal: who may approve."""

    @classmethod
    def read(cls, path: Path) -> TrustedKeys:
        """From a file ``{"format": "calsched-trusted-keys/1", "keys": {"ed25519:…": "anna"}}``; raises InvalidInput."""
        return cls.from_plain(_load(path), str(path))

    @classmethod
    def from_plain(cls, plain: Any, file: str = "") -> TrustedKeys:
        reader = _Reader(plain, ("format", "keys"), file)
        reader.constant("format", TRUST_FORMAT)
        keys = reader.plain.get("keys")
        if not isinstance(keys, dict) or not keys:
            reader.fail("keys", f"expected a mapping of key ids to principals, got {_shown(keys)}")
            keys = {}
        for key_id, principal in keys.items():
            if not _KEY_ID.fullmatch(key_id) or _decoded(key_id[8:], 32) is None:
                reader.fail(f"keys.{_shown(key_id)}", "expected a key id as `calsched keygen` prints it: ed25519:…")
            if not isinstance(principal, str) or not principal.strip() or not principal.isprintable():
                reader.fail(f"keys.{_shown(key_id)}", f"expected the name of a person, got {_shown(principal)}")
        reader.check()
        return cls(keys)


# --- documents ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SignedApproval:
    """One approval document. ``expires_at`` is an instant; ``expected_version`` is None for a creation."""

    installation: str
    action: str
    ref: Ref
    expected_version: int | None
    subject_digest: str
    nonce: str
    expires_at: int
    key_id: str
    signature: bytes

    def statement(self) -> dict[str, Any]:
        """What is signed, in plain JSON values."""
        return {
            "format": PURPOSE,
            "installation": self.installation,
            "action": self.action,
            "namespace": self.ref.namespace,
            "scheduleId": self.ref.schedule_id,
            "revision": self.ref.revision,
            "expectedVersion": self.expected_version,
            "subjectDigest": self.subject_digest,
            "nonce": self.nonce,
            "expiresAt": to_rfc3339(self.expires_at),
            "keyId": self.key_id,
        }

    def message(self) -> bytes:
        return f"{PURPOSE}\n{canonical_json(self.statement())}".encode()

    def document(self) -> dict[str, Any]:
        return {**self.statement(), "signature": _base64(self.signature)}


def sign(
    context: VerificationContext,
    key: SigningKey,
    *,
    now: int,
    lifetime: int = DEFAULT_LIFETIME,
    nonce: str | None = None,
) -> SignedApproval:
    """Approve exactly this context, for ``lifetime`` milliseconds from ``now``."""
    unsigned = SignedApproval(
        installation=context.installation,
        action=context.action,
        ref=context.ref,
        expected_version=context.expected_version,
        subject_digest=context.subject_digest,
        nonce=nonce or secrets.token_urlsafe(24),
        expires_at=min(now + lifetime, LAST_INSTANT),
        key_id=key.key_id,
        signature=b"",
    )
    return replace(unsigned, signature=key.sign(unsigned.message()))


def write_documents(approvals: Iterable[SignedApproval]) -> str:
    """The text of an approval file."""
    documents = [approval.document() for approval in approvals]
    return json.dumps({"format": f"{PURPOSE}-file", "approvals": documents}, indent=2, ensure_ascii=False) + "\n"


def read_documents(source: Path | str | bytes | Mapping[str, Any], file: str = "") -> tuple[SignedApproval, ...]:
    """The approvals of a file, a JSON text or a plain value (one document, or a file of several).

    Raises InvalidInput with every problem; that a signature is genuine is for ``SignedApprovals`` to say.
    """
    if isinstance(source, Path):
        plain, file = _load(source), str(source)
    elif isinstance(source, (str, bytes)):
        plain = _parsed(source, file)
    else:
        plain = source
    if not (isinstance(plain, Mapping) and "approvals" in plain):
        return (_one(plain, "", file),)
    reader = _Reader(plain, ("format", "approvals"), file)
    reader.constant("format", f"{PURPOSE}-file")
    found: list[SignedApproval] = []
    documents = plain["approvals"]
    if not isinstance(documents, list) or not documents:
        reader.fail("approvals", f"expected a list of approvals, got {_shown(documents)}")
        documents = []
    for index, document in enumerate(documents):
        try:
            found.append(_one(document, f"approvals[{index}]", file))
        except InvalidInput as invalid:
            reader.problems += invalid.problems
    reader.check()
    return tuple(found)


_DOCUMENT_KEYS: Final = (
    "format",
    "installation",
    "action",
    "namespace",
    "scheduleId",
    "revision",
    "expectedVersion",
    "subjectDigest",
    "nonce",
    "expiresAt",
    "keyId",
    "signature",
)


def _one(plain: Any, at: str, file: str) -> SignedApproval:
    reader = _Reader(plain, _DOCUMENT_KEYS, file, at)
    reader.constant("format", PURPOSE)
    approval = SignedApproval(
        installation=reader.text("installation"),
        action=reader.text("action", _ACTION, "an action such as create or pause"),
        ref=Ref(reader.text("namespace"), reader.text("scheduleId"), reader.count("revision")),
        expected_version=reader.count("expectedVersion"),
        subject_digest=reader.text("subjectDigest", _DIGEST, "a digest such as sha256:… of 64 hex digits"),
        nonce=reader.text("nonce", _NONCE, "a nonce of 16 to 128 characters"),
        expires_at=reader.instant("expiresAt"),
        key_id=reader.text("keyId", _KEY_ID, "a key id such as ed25519:… of 43 characters"),
        signature=reader.bytes("signature", 64),
    )
    reader.check()
    return approval


# --- the verifier -------------------------------------------------------------------------------------------


class SignedApprovals:
    """The verifier of signed approvals. A credential is an approval file's path, text or plain value."""

    def __init__(self, trusted: Mapping[str, str], clock: WallClock) -> None:
        self._trusted, self._clock = dict(trusted), clock

    def verify(self, credential: Any, context: VerificationContext) -> Approval | None:
        """None without a credential; raises ApprovalDenied with every reason against the nearest document."""
        if credential is None:
            return None
        reasons: list[str] | None = None
        for document in _documents(credential):
            against = self._against(document, context)
            if not against:
                return _accepted(document, self._trusted[document.key_id])
            if reasons is None or len(against) < len(reasons):
                reasons = against
        raise ApprovalDenied(
            f"no approval of {context.action} of {context.ref} among those presented: {'; '.join(reasons or ['none'])}"
        )

    def _against(self, document: SignedApproval, context: VerificationContext) -> list[str]:
        reasons = _differences(document, context)
        if context.action not in _WITHOUT_VERSION and context.expected_version is None:
            reasons.append("a signed approval needs the expected state version, and the request states none")
        if document.key_id not in self._trusted:
            reasons.append(f"the key {document.key_id} is not among the trusted ones")
        elif not _genuine(document):
            reasons.append("the signature does not fit the document: it was changed, or signed with another key")
        else:
            reasons += _same_person(self._trusted[document.key_id], document.key_id, context)
        if self._clock.now() >= document.expires_at:
            reasons.append(f"it expired at {to_rfc3339(document.expires_at)}")
        return reasons


def _documents(credential: Any) -> tuple[SignedApproval, ...]:
    if isinstance(credential, SignedApproval):
        return (credential,)
    if isinstance(credential, (Path, str, bytes, Mapping)):
        return read_documents(credential)
    raise ApprovalDenied(f"expected an approval document, got a value of type {type(credential).__name__}")


def _differences(document: SignedApproval, context: VerificationContext) -> list[str]:
    pairs = (
        ("installation", document.installation, context.installation),
        ("action", document.action, context.action),
        ("namespace", document.ref.namespace, context.ref.namespace),
        ("schedule", document.ref.schedule_id, context.ref.schedule_id),
        ("revision", document.ref.revision, context.ref.revision),
        ("state version", document.expected_version, context.expected_version),
        ("digest", document.subject_digest, context.subject_digest),
    )
    return [f"it is for {name} {theirs!r}, asked was {ours!r}" for name, theirs, ours in pairs if theirs != ours]


def _genuine(document: SignedApproval) -> bool:
    from cryptography.exceptions import InvalidSignature

    public = _decoded(document.key_id[8:], 32)
    if public is None:
        return False
    try:
        _ed25519().Ed25519PublicKey.from_public_bytes(public).verify(document.signature, document.message())
    except (InvalidSignature, ValueError):
        return False
    return True


def _same_person(principal: str, key_id: str, context: VerificationContext) -> list[str]:
    """The two-person rule. An account ``anna@host`` is the principal ``anna``."""
    if context.requester is None:
        return ["who asks is not known, so that it cannot be seen whether two people agree"]
    if key_id == context.requester_key:
        return ["it is signed with the requester's own key; somebody else has to approve"]
    approver, requester = principal.strip().casefold(), context.requester.strip().casefold()
    short = {approver.partition("@")[0], requester.partition("@")[0]}
    if approver == requester or (len(short) == 1 and not ("@" in approver and "@" in requester)):
        return [f"{principal} asks and approves; somebody else has to approve"]
    return []


def _accepted(document: SignedApproval, principal: str) -> Approval:
    return Approval(
        principal_id=principal,
        evidence_ref=f"signed:{document.key_id}:{document.nonce}",
        subject_digest=document.subject_digest,
        expires_at=document.expires_at,
        nonce=document.nonce,
        key_id=document.key_id,
    )


# --- reading JSON, every problem at once --------------------------------------------------------------------


class _Reader:
    """The fields of one JSON object. What is wrong is kept, and a harmless value stands in for it."""

    def __init__(self, plain: Any, known: tuple[str, ...], file: str, at: str = "") -> None:
        self.file, self.at = file, at
        self.problems: list[Problem] = []
        self.plain: Mapping[str, Any] = plain if isinstance(plain, Mapping) else {}
        if not isinstance(plain, Mapping):
            self.fail("", f"expected an object with {', '.join(known)}, got {_shown(plain)}")
            self.check()
        for name in self.plain:
            if name not in known:
                self.fail(str(name), f"not a field; expected {', '.join(known)}")

    def fail(self, name: str, message: str, hint: str = "") -> None:
        path = ".".join(part for part in (self.at, name) if part)
        self.problems.append(Problem(message, path, self.file, hint=hint))

    def check(self) -> None:
        if self.problems:
            raise InvalidInput(self.problems)

    def constant(self, name: str, value: str) -> None:
        if self.plain.get(name) != value:
            self.fail(name, f"expected {value!r}, got {_shown(self.plain.get(name))}")

    def text(self, name: str, pattern: re.Pattern[str] | None = None, what: str = "a text") -> str:
        value = self.plain.get(name)
        good = isinstance(value, str) and 0 < len(value) <= 512 and value.isprintable()
        if not good or (pattern is not None and not pattern.fullmatch(value or "")):
            self.fail(name, f"expected {what}, got {_shown(value)}")
            return ""
        return str(value)

    def count(self, name: str) -> int | None:
        value = self.plain.get(name)
        if value is None and name in self.plain:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
            self.fail(name, f"expected a number or null, got {_shown(value)}")
            return None
        return value

    def bytes(self, name: str, length: int) -> bytes:
        value = self.plain.get(name)
        decoded = _decoded(value, length) if isinstance(value, str) else None
        if decoded is None:
            self.fail(name, f"expected {length} bytes in base64url, got {_shown(value)}")
            return b""
        return decoded

    def instant(self, name: str) -> int:
        value = self.plain.get(name)
        if isinstance(value, str) and _EXPIRY.fullmatch(value):
            try:
                return to_millis(datetime.fromisoformat(value))
            except ValueError:
                pass
        self.fail(name, f"expected a UTC instant such as 2026-03-09T15:00:00Z, got {_shown(value)}")
        return 0


def _load(path: Path) -> Any:
    try:
        return _parsed(content(path, MAX_FILE_BYTES), str(path))
    except Unreadable as error:
        raise InvalidInput([Problem(str(error), file=str(path))]) from None


def _parsed(text: str | bytes, file: str) -> Any:
    if len(text) > MAX_FILE_BYTES:
        raise InvalidInput([Problem(f"more than {MAX_FILE_BYTES} bytes", file=file)])
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise InvalidInput([Problem("nested too deep", file=file)]) from None
    except ValueError as error:  # json.JSONDecodeError, UnicodeDecodeError and ours
        raise InvalidInput([Problem(f"expected JSON: {error}", file=file)]) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str, length: int) -> bytes | None:
    """Exactly ``length`` bytes from their one canonical base64url spelling, or None."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if len(data) == length and _base64(data) == text else None


def _shown(value: Any) -> str:
    shown = "nothing" if value is None else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"


