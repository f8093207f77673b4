"""Ray on this machine alone, for as long as one command needs it."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from workbench.cluster.place import ClusterError


@contextmanager
def ray_here() -> Iterator[str]:
    """Start Ray, and return its address.

    A process of its own has it, in a session of its own: a signal to the terminal's
    processes would end Ray before it can be told to end what it runs. That process ends
    with this one, whatever ends this one.
    """
    with subprocess.Popen(
        (sys.executable, "-P", "-m", __name__),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise ClusterError("Ray does not start on this machine: try `ray start`")
        yield address


def main() -> None:
    """Have Ray until nobody wants it any more."""
    # An extra, and only this process starts it.
    import ray

    # Ray lets all users write to its directory, where its sockets and the code of its
    # workers are. Names of sockets must be short, so TMPDIR is not asked.
    with tempfile.TemporaryDirectory(
        prefix="ipu-workbench-", dir="/tmp", ignore_cleanup_errors=True
    ) as folder:
        context = ray.init(
            address="local",
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=f"{folder}/ray",
        )
        print(context.address_info["address"], flush=True)
        sys.stdin.read()
        ray.shutdown()


if __name__ == "__main__":
    main()
