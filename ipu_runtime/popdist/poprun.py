"""`poprun`: start a program as several instances that train together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

from ipu_runtime.popdist.launched_job import run_job
from ipu_runtime.popdist.poprun_options import parse_options
from ipu_runtime.reports.plain_text import plain_line

_HOSTS = "ipu_runtime.hosts"
"""Entry points of who can start instances elsewhere; the runtime itself cannot."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code of the first instance that fails."""
    options = parse_options(sys.argv[1:] if arguments is None else arguments)
    if options.print_topology:
        for line in topology(
            options.instances,
            options.replicas,
            options.ipus_per_replica,
            options.hosts,
        ):
            print(f"poprun: {line}", file=sys.stderr)
    if options.hosts:
        (starter,) = entry_points(group=_HOSTS, name="ray")
        return int(starter.load()(options))
    try:
        return run_job(options)
    except OSError as error:
        text = f"poprun: {options.command[0]}: {error.strerror}"
        print(plain_line(text), file=sys.stderr)
        return 2


def topology(
    instances: int,
    replicas: int,
    ipus_per_replica: int,
    hosts: Sequence[str] = (),
) -> list[str]:
    """Return where the replicas and their IPUs are, a line for each instance."""
    hosts = hosts or ("localhost",)
    local = replicas // instances
    lines = []
    for index in range(instances):
        first, last = index * local, (index + 1) * local - 1
        ipus = (first * ipus_per_replica, (last + 1) * ipus_per_replica - 1)
        lines.append(
            f"instance {index} on {hosts[index * len(hosts) // instances]}: "
            f"replicas {first} to {last}, "
            f"IPUs {ipus[0]} to {ipus[1]}"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
