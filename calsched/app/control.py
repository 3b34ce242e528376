"""What people and programs do to schedules: each method one decision in one transaction, returning what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from calsched.app.approvals import inside, with_approvals
from calsched.app.files import Files, Sources, refuse_changed
from calsched.declare.declaration import Checked, Declaration
from calsched.declare.document import Format
from calsched.errors import InvalidInput, Problem, Refused
from calsched.model import Definition
from calsched.stores import apply, clocking, control, extra, inspect, recompute
from calsched.stores.clocking import Accepted
from calsched.stores.control import Ask
from calsched.stores.views import OccurrenceView, ScheduleView

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Created:
    """What ``create`` registered: every schedule as it is now, and the ids of those that are new."""

    schedules: tuple[ScheduleView, ...]
    created: frozenset[str]
    warnings: tuple[Problem, ...] = ()


class Control(Files):
    def ask(self, note: str | None = None, revision: int | None = None, version: int | None = None) -> Ask:
        """Who asks for a control, when, and on what they saw."""
        return Ask(
            now=self.now(),
            principal=self.principal,
            note=note,
            expected_revision=revision,
            expected_version=version,
        )

    # --- definitions --------------------------------------------------------------------------------------------------

    def create(
        self, sources: Sources, *, expect: str | None = None, note: str | None = None, format: Format | None = None
    ) -> Created:
        """Register declarations, all or none; one that exists with the same material is left as it is.

        ``expect`` is the digest of their preview: Refused where the files are not those any more. Raises InvalidInput,
        AlreadyExists.
        """
        checked = self.declarations(sources, format)
        refuse_changed(expect, checked)
        return self.register(checked, note=note)

    def register(self, checked: Checked, *, note: str | None = None) -> Created:
        """Register what a check found good, in one transaction."""
        store = self.store(create=True)
        ask = self.ask(note)
        prepared = {
            _name(one): apply.prepare(store, one.definition, one.enabled, checked.calendars, ask["now"])
            for one in checked.declarations
        }
        ask = with_approvals(self, _registering(checked), ask)
        return self.write(store, lambda conn: self._register(store, conn, checked, prepared, inside(store, conn, ask)))

    def _register(
        self, store: Any, conn: Any, checked: Checked, prepared: Mapping[tuple[str, str], apply.Prepared], ask: Ask
    ) -> Created:
        apply.lock(store, conn, prepared, checked.declared_calendars)
        recompute.set_calendars(store, conn, checked.declared_calendars, **ask)
        known = apply.catalogue(store, conn, {name[0] for name in prepared}, whole=False)
        taken = {(one.namespace, one.id) for one in known}
        one_by_one = self.verifier is not None  # each with an approval of its own
        old = [one for one in checked.declarations if one_by_one or _name(one) in taken or one.revision is not None]
        created = {
            view.id: view.created
            for view in (
                control.create(store, conn, one.definition, enabled=one.enabled, revision=one.revision, **ask)
                for one in old
            )
        }
        rest = [made for name, made in prepared.items() if name not in {_name(one) for one in old}]
        apply.create_many(store, conn, rest, **ask)
        views = tuple(inspect.get(store, conn, *_name(one)) for one in checked.declarations)
        new = {view.id for view in views if created.get(view.id, True)}
        return Created(views, frozenset(new), tuple(checked.warnings))

    def update(
        self,
        id: str,
        source: Sources,
        *,
        format: Format | None = None,
        revision: int | None = None,
        version: int | None = None,
        note: str | None = None,
        cancel_pending: bool = False,
    ) -> ScheduleView:
        """A new revision; the keys of ``source`` replace those of the definition.

        The same material changes nothing (the revision stays) where the schedule is enabled, nothing of its budget is
        used, no failures are counted and no attention is asked for; else it is a fresh revision.

        Raises PendingWork unless ``cancel_pending``, StaleVersion, InvalidInput.
        """
        from calsched.declare.plain import check_update

        definition = self.definition(id)
        documents = self.read(source, format)
        if len(documents) != 1:
            raise InvalidInput(f"an update is one file, and this names {len(documents)}")
        host = self.host()
        lent = {name: getattr(host, name) for name in host.__dataclass_fields__ if name != "now"}
        declaration, _ = check_update(definition, documents[0], now=host.now, **lent)
        return self._control(
            lambda store, conn, ask: control.update(
                store, conn, declaration.definition, cancel_pending=cancel_pending, **ask
            ),
            self.ask(note, revision, version),
        )

    def definition(self, id: str) -> Definition:
        """The live definition. Raises UnknownSchedule, or Refused where the stored one cannot be loaded."""
        store = self.store()
        with store.read() as conn:
            view = inspect.get(store, conn, self.namespace, id)
        if view.definition is None:
            raise Refused(f"the stored definition of {id!r} cannot be loaded: {view.problem}")
        return view.definition

    # --- moves --------------------------------------------------------------------------------------------------------

    def pause(
        self,
        id: str,
        *,
        until: int | None = None,
        revision: int | None = None,
        version: int | None = None,
        note: str | None = None,
    ) -> ScheduleView:
        """Hold a schedule; ``until`` (an instant) resumes it by itself."""
        if until is not None and until <= self.now():
            raise InvalidInput([Problem("this instant has passed already", "until")])
        return self._move(id, revision, version, note, control.pause, until=until)

    def resume(
        self, id: str, *, revision: int | None = None, version: int | None = None, note: str | None = None
    ) -> ScheduleView:
        """End an operator's pause; the misfire policy judges what accumulated."""
        return self._move(id, revision, version, note, control.resume)

    def enable(
        self, id: str, *, revision: int | None = None, version: int | None = None, note: str | None = None
    ) -> ScheduleView:
        """Collect from now on, replaying nothing."""
        return self._move(id, revision, version, note, control.enable)

    def disable(
        self, id: str, *, revision: int | None = None, version: int | None = None, note: str | None = None
    ) -> ScheduleView:
        """Clear the next due and skip what waits; running work finishes."""
        return self._move(id, revision, version, note, control.disable)

    def cancel(
        self, id: str, *, revision: int | None = None, version: int | None = None, note: str | None = None
    ) -> ScheduleView:
        """End this revision for good."""
        return self._move(id, revision, version, note, control.cancel)

    def delete(
        self, id: str, *, revision: int | None = None, version: int | None = None, note: str | None = None
    ) -> None:
        """Remove a schedule with its history; its decisions stay. Raises PendingWork."""
        self._move(id, revision, version, note, control.delete)

    def delete_namespace(self, *, note: str | None = None) -> list[str]:
        """Remove every schedule of this app's namespace, or none of them (PendingWork); their ids."""
        return self._control(
            lambda store, conn, ask: control.delete_namespace(store, conn, self.namespace, **ask), self.ask(note)
        )

    # --- besides the slots --------------------------------------------------------------------------------------------

    def run(self, id: str, *, note: str | None = None) -> OccurrenceView:
        """An extra occurrence now, in a series of its own, behind whatever waits. Raises MoveNotAllowed."""

        def act(store: Any, conn: Any, ask: Ask) -> OccurrenceView:
            _, pk = extra.run_extra(store, conn, self.namespace, id, **ask)
            made = inspect.occurrence(store, conn, pk)
            assert made is not None
            return made

        return self._control(act, self.ask(note))

    def skip(self, id: str, dues: Sequence[int], *, note: str | None = None) -> ScheduleView:
        """Skip slots that are not judged yet; each becomes a verdict when its time comes."""
        return self._move(id, None, None, note, extra.skip, dues=dues)

    def skip_next(self, id: str, *, note: str | None = None) -> tuple[ScheduleView, int]:
        """Skip the next slot that is not skipped already; the schedule, and the slot. Raises Refused."""

        return self._move(id, None, None, note, extra.skip_next)

    def unskip(self, id: str, due: int, *, note: str | None = None) -> ScheduleView:
        """Take a skip back. Raises Refused where there is none."""
        return self._move(id, None, None, note, extra.unskip, due=due)

    def clock_accept(self, *, rewind: bool = False, note: str | None = None) -> Accepted:
        """Declare the clock's reading right, which ends a hold; ``rewind`` takes back what a false future judged."""
        return self._control(
            lambda store, conn, ask: clocking.clock_accept(store, conn, rewind_cursors=rewind, **ask), self.ask(note)
        )

    # --- how ----------------------------------------------------------------------------------------------------------

    def _move(
        self,
        id: str,
        revision: int | None,
        version: int | None,
        note: str | None,
        verb: Callable[..., T],
        **options: Any,
    ) -> T:
        return self._control(
            lambda store, conn, ask: verb(store, conn, self.namespace, id, **options, **ask),
            self.ask(note, revision, version),
        )

    def _control(self, act: Callable[[Any, Any, Ask], T], ask: Ask) -> T:
        """One control in one transaction of a store that exists, done again where it lost against another one."""
        store = self.store()
        ask = with_approvals(self, [act], ask)
        return self.write(store, lambda conn: act(store, conn, inside(store, conn, ask)))


def _registering(checked: Checked) -> Iterator[Callable[[Any, Any, Ask], Any]]:
    """The controls that registering consists of, each by itself."""
    if checked.declared_calendars:
        yield lambda store, conn, ask: recompute.set_calendars(store, conn, checked.declared_calendars, **ask)
    for one in checked.declarations:
        yield partial(_create, one)


def _create(one: Declaration, store: Any, conn: Any, ask: Ask) -> ScheduleView:
    return control.create(store, conn, one.definition, enabled=one.enabled, revision=one.revision, **ask)


def _name(declaration: Declaration) -> tuple[str, str]:
    return declaration.definition.namespace, declaration.definition.id
