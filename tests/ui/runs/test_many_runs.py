"""A store of more runs than anybody reads."""

from __future__ import annotations

import pytest

from tests.ui.conftest import MakeApp
from workbench.runs.events import RunStatus
from workbench.runs.run_store import StoredRun
from workbench.services.run_entries import RunEntry
from workbench.ui.screens import runs as runs_screen
from workbench.ui.widgets.row_list import RowList
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
        known = app.runs
        found = [item for item in entries if known.lets_through(item, "r04999")]
        assert [item.key for item in found] == ["r04999"]


async def test_the_table_says_how_many_it_leaves_out(
    make_app: MakeApp, two_runs: list[StoredRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_screen, "MOST_ROWS", 1)
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        app.action_runs_list()
        await pilot.pause()
        table = app.screen.query_one("#all-runs", RowList)
        assert len(table.keys) == 1
        assert "1 more" in table.rows[-1].content.plain
