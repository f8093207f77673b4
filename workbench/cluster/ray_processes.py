"""Processes that Ray has placed: what is new of them, and their end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from workbench.cluster.hosted_process import HostedProcess, News
from workbench.cluster.ray_cluster import require_ray

_NEWS_EVERY_S = 0.5
_PATIENCE_S = 5.0


def hosted_process(**options: Any) -> Any:
    """Return a process that has a place, or will have one, as Ray's options say."""
    # One call waits for news while another one brings a line.
    hosted = require_ray().remote(HostedProcess).options(max_concurrency=4, **options)
    return hosted.remote()


def follow(
    process: Any, tell: Callable[[News], None], lost: Callable[[Exception], None]
) -> None:
    """Tell, from a thread, what is new of a process until it ends or is lost."""
    ray = require_ray()

    def ask() -> None:
        try:
            news = None
            while news is None or news.code is None:
                news = ray.get(process.news.remote(_NEWS_EVERY_S))
                tell(news)
        except Exception as error:
            # Whatever it is, who waits for the process has to hear of it.
            lost(error)

    threading.Thread(target=ask, daemon=True).start()


def end_processes(processes: Sequence[Any]) -> None:
    """End all; Ray ends what does not answer, or cannot any more."""
    ray = require_ray()
    # A cluster that is gone has taken them along.
    with suppress(ray.exceptions.RayError, OSError):
        ending = [process.end.remote() for process in processes]
        if ending:
            ray.wait(ending, num_returns=len(ending), timeout=_PATIENCE_S)
        for process in processes:
            ray.kill(process)
