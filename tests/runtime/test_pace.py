"""How far ahead an owner claims, and how many started occurrences its executors hold."""

from __future__ import annotations

import pytest

from calsched.model import Claimed, Definition, Outcome, Task
from calsched.runtime.flights import Flights
from calsched.runtime.pace import MOST, Pace
from calsched.runtime.work import Prepared, Work


def noop() -> None: ...


class Seat:
    def __init__(self, kind: str = "thread", workers: int = 4) -> None:
        self.kind, self.workers, self.threads = kind, workers, 2


PREPARED = Prepared(Definition(id="s", trigger={}, task=Task(callable=f"{__name__}:noop")))


def work(pk: int) -> Work:
    claimed = Claimed(pk, pk, "default", "s", 1, 1, "slot", 0, 0, 0, 1, 0, 0, 0, None, 0, 1, 0, None)
    return Work(claimed, PREPARED, None)  # type: ignore[arg-type]


def end(works: list[Work], elapsed: int) -> list[Work]:
    for one in works:
        one.outcome = Outcome(one.claimed.occurrence, 1, "succeeded", 0, elapsed)
    return works


def start(flights: Flights, now: int = 0) -> list[Work]:
    chosen = flights.next_to_start(now)
    return flights.started(chosen, {one.claimed.occurrence for one in chosen}, now)


# --- pace -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ended", "elapsed", "over", "least", "most"),
    [
        (0, 0, 1_000, 0, 0),  # nothing is known
        (400, 400, 100, 900, MOST),  # 4 a millisecond: a quarter of a second is a thousand
        (10, 100, 100, 20, 30),  # a hundred a second
        (4, 14_400_000, 3_600_000, 0, 0),  # four an hour
    ],
)
def test_the_look_ahead_follows_what_was_finished(ended: int, elapsed: int, over: int, least: int, most: int) -> None:
    pace = Pace(0)
    if ended:
        pace.finished(ended, elapsed, over)
    assert least <= pace.look_ahead(over) <= most


def test_before_the_first_sample_is_complete_it_begins_small() -> None:
    pace = Pace(0)
    pace.finished(10, 5, 3)
    assert pace.look_ahead(3) == 20


def test_a_pace_that_has_died_down_is_forgotten_within_seconds() -> None:
    pace = Pace(0)
    pace.finished(400, 400, 100)
    assert pace.look_ahead(100) > 900
    assert pace.look_ahead(1_100) < 50
    assert pace.look_ahead(3_100) == 0


@pytest.mark.parametrize(("mean", "window"), [(None, 10), (1, 40), (100, 20), (5_000, 10)])
def test_the_window_is_about_twice_the_workers_while_tasks_are_short(mean: int | None, window: int) -> None:
    pace = Pace(0)
    if mean is not None:
        pace.finished(1, mean, 100)
    assert pace.window(10) == window


# --- flights ----------------------------------------------------------------------------------------------------------


def test_an_idle_pool_wants_as_many_as_it_has_workers() -> None:
    flights = Flights()
    flights.seat({"default": Seat()}, 0)
    assert flights.wanted(0) == {"default": 4}


def test_a_pool_that_is_busy_with_long_tasks_holds_no_fifth() -> None:
    flights = Flights()
    flights.seat({"default": Seat()}, 0)
    flights.add([work(pk) for pk in range(4)])
    assert len(start(flights)) == 4
    assert flights.wanted(0) == {}
    assert flights.wanted(3_600_000) == {}


def test_a_process_pool_is_given_exactly_its_workers() -> None:
    flights = Flights()
    flights.seat({"default": Seat("process")}, 0)
    flights.add([work(pk) for pk in range(8)])
    first = start(flights)
    flights.ended(end(first, 1), 100)
    assert len(start(flights, 100)) == 4


def test_a_fast_pool_is_never_without_stock() -> None:
    flights = Flights()
    flights.seat({"default": Seat()}, 0)
    for pk, now in zip(range(0, 4_000, 8), range(500), strict=False):
        flights.add([work(pk + i) for i in range(8)])
        flights.ended(end(start(flights, now), 0), now)
    assert flights.wanted(500)["default"] > 500


def test_what_is_claimed_too_far_ahead_is_given_back_when_the_pace_drops() -> None:
    flights = Flights()
    flights.seat({"default": Seat()}, 0)
    flights.add([work(pk) for pk in range(54)])
    started = start(flights)
    flights.ended(end(started, 1), 50)
    assert flights.excess(50) == []  # eighty a second: the stock is for a quarter of a second and more
    start(flights, 50)
    start(flights, 50)  # the other half of the window
    surplus = flights.excess(10_000)
    assert len(surplus) == len(flights.stock())
    flights.drop(surplus)
    assert flights.stock() == []


def test_what_is_claimed_for_a_pool_is_started_at_once() -> None:
    flights = Flights(ahead=False)
    flights.seat({"default": Seat()}, 0)
    direct, ahead = flights.split(flights.wanted(0))
    assert (direct, ahead) == ({"default": 4}, {})
    begun = [work(pk) for pk in range(4)]
    flights.begun(begun, 0)
    assert flights.wanted(0) == {}
    flights.ended(end(begun[:1], 5_000), 5_000)
    assert flights.wanted(5_000) == {"default": 1}


def test_an_executor_that_refused_a_task_is_left_alone_for_a_moment() -> None:
    flights = Flights()
    flights.seat({"default": Seat()}, 0)
    flights.berths["default"].blocked_until = 1_000
    assert flights.wanted(999) == {}
    assert flights.wanted(1_000) == {"default": 4}


def test_a_claim_whose_executor_has_gone_is_a_stray() -> None:
    flights = Flights()
    one = work(1)
    assert flights.add([one]) == [one]


def test_a_seat_is_freed_once() -> None:
    flights = Flights()
    flights.seat({"default": Seat()}, 0)
    flights.add([work(1)])
    started = end(start(flights), 1)
    flights.ended(started, 10)
    flights.ended(started, 20)
    assert flights.berths["default"].taken == 0


# --- a window that widens ---------------------------------------------------------------------------------------------


def seated() -> Flights:
    flights = Flights()
    flights.seat({"default": Seat()}, 0)
    return flights


def drain(flights: Flights, rounds: int, elapsed: int, step: int = 10) -> int:
    """So many rounds in each of which all that was started has ended; how many the last one started."""
    started: list[Work] = []
    for n in range(rounds):
        now = n * step
        flights.ended(end(started, elapsed), now)
        flights.add([work(pk) for pk in range(n * 1_000, n * 1_000 + 300)])
        started = start(flights, now)
        flights.drop(flights.stock())
    return len(started)


def test_the_window_widens_while_the_workers_run_dry() -> None:
    assert [drain(seated(), n, 0) for n in (1, 2, 3, 4, 9)] == [4, 8, 32, 128, 128]


def test_the_window_of_tasks_that_take_their_time_stays_narrow() -> None:
    assert drain(seated(), 9, 40) == 8


def test_a_lone_task_widens_nothing() -> None:
    flights = seated()
    for n in range(9):
        flights.add([work(n)])
        flights.ended(end(start(flights, n), 0), n)
    assert flights.berths["default"].holds() == 16


def test_a_wide_window_is_filled_by_halves_and_again_when_one_of_them_is_over() -> None:
    flights = seated()
    assert drain(flights, 6, 0) == 128
    flights.add([work(pk) for pk in range(90_000, 90_300)])
    under_way = [one for one in flights.works.values() if not one.released] + start(flights, 50)
    assert (len(under_way), flights.berths["default"].holds()) == (256, 256)
    assert (flights.is_flowing(50), start(flights, 50)) == (True, [])
    flights.ended(end(under_way[:100], 0), 50)
    assert (flights.is_flowing(50), start(flights, 50)) == (True, [])
    flights.ended(end(under_way[100:128], 0), 51)
    assert len(start(flights, 51)) == 128


def test_a_window_widens_too_where_one_half_is_over_while_the_other_is_being_started() -> None:
    flights = seated()
    earlier: list[Work] = []
    for n in range(4):
        flights.add([work(pk) for pk in range(n * 1_000, n * 1_000 + 200)])
        latest = start(flights, n * 10)
        flights.drop(flights.stock())
        flights.ended(end(earlier, 0), n * 10 + 1)  # those of the round before
        earlier = latest
    assert flights.berths["default"].holds() == 64


def test_started_work_behind_long_tasks_is_withdrawn_unless_a_worker_has_it() -> None:
    flights = seated()
    drain(flights, 5, 0)
    under_way = [one for one in flights.works.values() if not one.released]
    for one in under_way[:4]:
        assert one.take()
        one.began = 40
    assert under_way[4].take()  # its worker is about to begin
    assert flights.withdraw(1_000) == []
    assert flights.withdraw(1_100) == under_way[5:]
    assert not under_way[5].take()
    assert flights.withdraw(1_100) == []


def test_after_a_lull_the_window_is_narrow_again() -> None:
    flights = seated()
    drain(flights, 5, 0)
    under_way = [one for one in flights.works.values() if not one.released]
    flights.ended(end(under_way, 0), 5_000)
    assert flights.berths["default"].holds() == 16
