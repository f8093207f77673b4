"""Asks whether code may run that the user has not trusted yet; once for what it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from workbench.models.code_trust import allow, is_trusted, trust

_YES, _NO = "trust and run it", "no"


class AskingView(Protocol):
    """What a question needs of the screen."""

    async def confirm(self, question: str, yes: str, no: str) -> bool: ...


async def trusts_sources(
    view: AskingView, name: str, tables: Mapping[str, Any]
) -> bool:
    """Tell whether the code may run that an experiment names; ask about what is new."""
    # Late: it loads the planner, which the first frame does without.
    from workbench.experiment.experiment_loading import untrusted_sources

    sources = untrusted_sources(tables)
    named = " and ".join(source.text for source in sources)
    question = f"{name} runs {named}. Do you trust its author?"
    if sources and not await view.confirm(question, _YES, _NO):
        return False
    for source in sources:
        allow(source)
    return True


async def trusts_script(view: AskingView, title: str, script: Path) -> bool:
    """Tell whether a script may run that a record or an experiment names."""
    if not is_trusted(script):
        question = (
            f"{title}: {script} has not run here as it is now. Do you trust its author?"
        )
        if not await view.confirm(question, _YES, _NO):
            return False
        trust(script)
    return True
