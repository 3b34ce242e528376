"""The two-person rule on the command line: `keygen` makes a key, `approve` signs what somebody else will ask for."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from calsched.approval import VerificationContext
from calsched.cli.common import APPROVABLE, Session, command, duration, invalid
from calsched.cli.main import app as root
from calsched.cli.render import Output
from calsched.clock import to_rfc3339
from calsched.errors import Refused
from calsched.signing import TRUST_FORMAT, SigningKey, sign, write_documents


@command(root, "keygen")
def keygen(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The private key to write; only you can read it.")],
    principal: Annotated[str | None, typer.Option(help="Whose key it is (your account).")] = None,
) -> None:
    """Make a key that signs approvals, and show the line that makes others trust it."""
    from calsched.approval import os_account

    key = SigningKey.generate()
    key.write(file)
    name = principal or os_account()
    if session.as_json:
        session.out.json({"file": str(file), "keyId": key.key_id, "principal": name})
        return
    session.out.line(f"{file}: written; keep it to yourself")
    session.out.line("what others put into the file that their setting `approvals` names:")
    session.out.line(json.dumps({"format": TRUST_FORMAT, "keys": {key.key_id: name}}, ensure_ascii=False))


@command(
    root,
    "approve",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def approve(
    session: Session,
    words: Annotated[
        list[str], typer.Argument(metavar="FILE... | COMMAND...", help="Files to create, or a control as it is typed.")
    ],
    key: Annotated[Path, typer.Option(help="Your private key, made by `calsched keygen`.")],
    out_file: Annotated[Path | None, typer.Option("--out", help="The approval to write (standard output).")] = None,
    lifetime: Annotated[str, typer.Option("--for", help="How long it holds, such as 8h.")] = "24h",
) -> None:
    """Approve what somebody else will do: `approve --key K schedules.yaml`, `approve --key K pause report`.

    Options come before the files or the command. Nothing is changed; the other person presents it with --approval.
    """
    signing = SigningKey.read(key)
    holds = duration(lifetime, "--for")
    if not 0 < holds <= 366 * 86_400_000:
        raise invalid(f"expected a length of time up to a year, got {lifetime!r}", "--for")
    typed = words[0] in APPROVABLE or words[:2] == ["calendars", "set"]
    contexts = _contexts(session, words if typed else ["create", *words])
    if not contexts:
        raise Refused("nothing in it needs an approval: it would change nothing")
    _describe(Output(), contexts)
    now = session.app().now()
    _write(out_file, write_documents(sign(context, signing, now=now, lifetime=holds) for context in contexts))


def _contexts(session: Session, words: Sequence[str]) -> Sequence[VerificationContext]:
    """Run the control as it would be typed, up to where an approval is asked for."""
    from calsched.app.approvals import Collected, Collector

    collector = Collector()
    asked = Session(flags=dict(session.flags), verifier=collector)
    group: Any = typer.main.get_command(root)
    try:
        TyperGroup.main(group, list(words), "calsched", obj=asked, standalone_mode=False)
    except Collected:
        return collector.contexts
    finally:
        asked.close()
    return ()


def _describe(out: Output, contexts: Sequence[VerificationContext]) -> None:
    """What is about to be signed, on standard error: the approver reads it, the file goes elsewhere."""
    for context in contexts:
        seen = f", state version {context.expected_version}" if context.expected_version is not None else ""
        out.note(f"approving {context.action} of {context.ref}{seen}: {context.subject_digest}")
        definition = context.material["definition"]
        if isinstance(definition, dict) and "trigger" in definition:
            _describe_material(out, definition, "  ")
        if isinstance(definition, dict) and "plan" in definition:
            _describe_plan(out, definition)
        if context.material["arguments"]:
            out.note(f"  with {json.dumps(_readable(context.material['arguments']), ensure_ascii=False)}")


def _describe_material(out: Output, material: dict[str, Any], indent: str) -> None:
    """The rule in words, and all of the definition as it is signed."""
    from calsched.triggers.describe import describe

    out.note(f"{indent}due {describe(material['trigger'])}")
    out.note(f"{indent}{json.dumps(material, ensure_ascii=False)}")


def _describe_plan(out: Output, definition: dict[str, Any]) -> None:
    materials = {
        (one["material"]["namespace"], one["material"]["id"]): one["material"]
        for one in definition["plan"]["declarations"]
    }
    for change in definition["changes"]:
        steps = ", ".join(change["steps"]) or "follow the calendar"
        out.note(f"  {steps} {change['id']!r} in {change['namespace']!r}")
        if material := materials.get((change["namespace"], change["id"])):
            _describe_material(out, material, "    ")
    for name, material in definition["plan"]["calendars"].items():
        out.note(f"  calendar {name}: {json.dumps(material, ensure_ascii=False)}")


def _readable(arguments: dict[str, Any]) -> dict[str, Any]:
    instants = ("until", "startAt")
    return {name: to_rfc3339(value) if name in instants else value for name, value in arguments.items()}


def _write(file: Path | None, text: str) -> None:
    if file is None:
        sys.stdout.write(text)
        return
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise invalid("exists already; nothing is written over it", f"--out {file}") from None
    except OSError as error:
        raise invalid(f"cannot be written: {error.strerror}", f"--out {file}") from None
