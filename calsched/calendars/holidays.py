"""Public holidays, from the ``holidays`` package (the extra of that name), as explicit dates."""

from __future__ import annotations

import importlib
from difflib import get_close_matches
from typing import Any

from calsched.calendars.definition import HolidaySource
from calsched.errors import Problem

#: Which years are looked up where a definition does not say: last year, this year and so many more.
YEARS_AHEAD = 5


def default_years(this_year: int) -> tuple[int, int]:
    return this_year - 1, this_year + YEARS_AHEAD


def look_up(
    source: HolidaySource, this_year: int, path: str, problems: list[Problem]
) -> tuple[dict[str, str], tuple[int, int]]:
    """Dates with the holidays' names, and the first and last year looked up; adds a problem where it cannot."""
    years = source.years or default_years(this_year)
    package = _package(path, problems)
    if package is None or not _known(package, source, path, problems):
        return {}, years
    options: dict[str, Any] = {"subdiv": source.subdivision, "years": range(years[0], years[1] + 1)}
    if source.categories:
        options["categories"] = source.categories
    if source.language:
        options["language"] = source.language
    try:
        found = package.country_holidays(source.country.upper(), **options)
    except (NotImplementedError, ValueError, KeyError, TypeError) as error:
        problems.append(Problem(f"the holidays package refuses this: {error}", path))
        return {}, years
    days = {day.isoformat(): str(name) for day, name in sorted(found.items()) if years[0] <= day.year <= years[1]}
    return days, years


def _package(path: str, problems: list[Problem]) -> Any:
    try:
        return importlib.import_module("holidays")
    except ImportError:
        hint = "install it: pip install 'apscheduler-calsched[holidays]'"
        problems.append(Problem("public holidays need the 'holidays' package, which is not installed", path, hint=hint))
        return None


def _known(package: Any, source: HolidaySource, path: str, problems: list[Problem]) -> bool:
    countries = package.list_supported_countries(include_aliases=True)
    country = source.country.upper()
    if country not in countries:
        _not_one_of(source.country, list(countries), f"{path}.country", "country", problems)
        return False
    if source.subdivision is not None and source.subdivision not in countries[country]:
        _not_one_of(
            source.subdivision, countries[country], f"{path}.subdivision", f"subdivision of {country}", problems
        )
    entity = getattr(package, country, None)
    categories = tuple(getattr(entity, "supported_categories", ()))
    for index, name in enumerate(source.categories):
        if categories and name not in categories:
            _not_one_of(name, list(categories), f"{path}.categories[{index}]", f"category of {country}", problems)
    languages = tuple(getattr(entity, "supported_languages", ()))
    if source.language is not None and source.language not in languages:
        _not_one_of(source.language, list(languages), f"{path}.language", f"language for {country}", problems)
    return not any(problem.path.startswith(f"{path}.") for problem in problems)


def _not_one_of(value: str, known: list[str], path: str, what: str, problems: list[Problem]) -> None:
    near = get_close_matches(value, known, 3, 0.5) or sorted(known)[:12]
    hint = f"for example {', '.join(near)}" if near else "it has none"
    problems.append(Problem(f"unknown {what} {value!r}", path, hint=hint))
