"""A client whose own clock is wrong: on servers the database says what time it is, for controls as for owners."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calsched import SystemClock
from calsched.app import App
from calsched.settings import Settings
from calsched.stores.engine import Store
from calsched.stores.views import RangeView
from tests.stores.conftest import drop, server_url

HOUR = 3_600_000


class Wrong(SystemClock):
    """The machine's clock, off by so many milliseconds."""

    def __init__(self, off: int) -> None:
        self.off = off

    def now(self) -> int:
        return super().now() + self.off


def soon(instant: int | None) -> bool:
    """Within the coming hour, or a few seconds ago."""
    now = SystemClock().now()
    return instant is not None and now - 5_000 < instant <= now + HOUR + 1_000


@pytest.fixture(params=["postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, prefix: str) -> Iterator[str]:
    address = server_url(request.param)
    yield address
    drop(Store(address, prefix=prefix))


@pytest.mark.parametrize("off", [5 * HOUR, -5 * HOUR])
def test_a_control_goes_by_the_databases_clock(url: str, prefix: str, off: int) -> None:
    # the operator's own approval of a control holds for a minute
    with App(url, settings=Settings(table_prefix=prefix, approvals="operator"), clock=Wrong(off)) as app:
        (made,) = app.create(b"id: a\nevery: 1h\ntask: jobs:run", format="yaml").schedules
        assert soon(made.next_due)
        app.disable("a")
        assert soon(app.enable("a").next_due)
        assert soon(app.update("a", b"every: 30m", format="yaml").next_due)
        app.pause("a")
        assert soon(app.resume("a").next_due)
        assert soon(app.run("a").due)
        assert soon(app.cancel("a").changed_at + 1)
        assert [one for one in app.history("a").entries if isinstance(one, RangeView)] == []  # nothing was passed over


def test_files_are_applied_by_the_databases_clock(url: str, prefix: str) -> None:
    with App(url, settings=Settings(table_prefix=prefix), clock=Wrong(5 * HOUR)) as app:
        app.apply(b"id: b\nevery: 1h\ntask: jobs:run", format="yaml")
        assert soon(app.show("b").show.schedule.next_due)
