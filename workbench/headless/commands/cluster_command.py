"""`ipu-workbench cluster`: the machines that sweeps and runs can be placed on."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from ipu_runtime.plan.quantities import byte_size
from workbench.cluster.ray_cluster import ClusterFacts, cluster_facts, connected
from workbench.headless.arguments import add_place_argument, chosen_place
from workbench.headless.exit_codes import ExitCode
from workbench.headless.native_output import NativeLog
from workbench.headless.output import print_json, print_line, print_table
from workbench.services.refused import Refused


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "cluster",
        help="show the machines of a Ray cluster",
        description="Sweeps and runs can be placed on a Ray cluster with --on. Needs "
        "the extra: pip install 'ipu-workbench[cluster]'.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    status = actions.add_parser(
        "status", help="nodes, CPUs and memory, and what is free of them"
    )
    add_place_argument(status, default="auto")
    status.add_argument("--json", action="store_true", help="one object")
    status.set_defaults(run=_status)


def _status(args: argparse.Namespace) -> int:
    if args.on.shares_files:
        hint = "use auto or ray://HOST:PORT"
        raise Refused(f"{args.on.text} is no cluster", hint, "--on")
    with NativeLog() as native_log:
        # Ray tells of every failed attempt to reach it.
        native_log.drop()
        with connected(chosen_place(args)):
            facts = cluster_facts()
    if args.json:
        print_json({"event": "cluster", **asdict(facts)})
    else:
        _print_facts(facts)
    return ExitCode.DONE


def _print_facts(facts: ClusterFacts) -> None:
    cpus = sum(node.cpus for node in facts.nodes)
    memory = sum(node.memory_bytes for node in facts.nodes)
    free, free_memory = facts.free_cpus, byte_size(facts.free_memory_bytes)
    print_line(f"Ray {facts.ray_version}, {len(facts.nodes)} nodes")
    print_line(f"{free:g} of {cpus:g} CPUs are free")
    print_line(f"{free_memory} of {byte_size(memory)} memory are free")
    print_line()
    rows = [
        (
            node.address,
            node.host,
            "head" if node.is_head else "worker",
            f"{node.cpus:g}",
            byte_size(node.memory_bytes),
        )
        for node in facts.nodes
    ]
    print_table(("address", "host", "is", "CPUs", "memory"), rows)
