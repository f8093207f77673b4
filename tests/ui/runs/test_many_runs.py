"""A store of more runs than anybody reads."""

from __future__ import annotations

from tests.ui.conftest import MakeApp
from workbench.core.runs.events import RunStatus
from workbench.ui.controllers.known_runs import RunEntry
from workbench.ui.widgets.sidebar_lists import RunList


async def test_list_draws_the_newest_and_filters_all(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)):
        runs = app.query_one(RunList)
        entries = [
            RunEntry(f"r{n:05}", "mnist", RunStatus.FINISHED, "0.9")
            for n in range(5_000)
        ]
        runs.show_runs(entries, [], False)
        assert len(runs.keys) == 2_000
        assert "3,000 older" in runs.rows[-1].content.plain
        known = app.runs.known
        found = [item for item in entries if known.lets_through(item, "r04999")]
        assert [item.key for item in found] == ["r04999"]
