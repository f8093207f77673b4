"""The options of `poprun`: which there are, and what is valid."""

from __future__ import annotations

import argparse
import shutil
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from ipu_runtime.reports.plain_text import plain_line
from ipu_runtime.system.instances import instance_of

_WITHOUT_EFFECT = (
    "mpi-global-args",
    "mpi-local-args",
    "num-ilds",
    "vipu-server-host",
    "vipu-server-port",
    "vipu-server-timeout",
    "vipu-partition",
    "update-partition",
    "reset-partition",
    "remove-partition",
    "executable-cache-path",
    "numa-aware",
)
_ANSWERS = {
    "yes": True,
    "1": True,
    "true": True,
    "no": False,
    "0": False,
    "false": False,
}


@dataclass(frozen=True, slots=True)
class PoprunOptions:
    """A command line that makes sense."""

    instances: int
    replicas: int
    """Of all instances."""
    ipus_per_replica: int
    print_topology: bool
    shown_instance: int | None
    """The only one whose output is shown; None shows all."""
    timeout_s: float | None
    verbose: bool
    command: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    """Machines that share the instances out; none if this one has all."""
    network_allowed: bool = False
    """Whether hosts may have addresses of the internet."""

    def environment(self, index: int) -> dict[str, str]:
        """Return what `popdist` reads in an instance."""
        return instance_of(
            index,
            self.instances,
            self.replicas,
            self.ipus_per_replica,
            self.instances // max(1, len(self.hosts)),
        ).environment


def parse_options(arguments: Sequence[str]) -> PoprunOptions:
    """Read a command line; one line on stderr and exit code 2 if it is wrong."""
    parser = _parser()
    given = parser.parse_args(arguments)
    for name in _WITHOUT_EFFECT:
        if getattr(given, name.replace("-", "_")) is not None:
            print(f"poprun: --{name} has no effect here", file=sys.stderr)
    instances = given.num_instances
    replicas = instances if given.num_replicas is None else given.num_replicas
    if replicas % instances:
        parser.error(
            f"--num-replicas {replicas}: must be a multiple of --num-instances "
            f"{instances}"
        )
    hosts = given.host or ()
    per_host, rest = divmod(instances, max(1, len(hosts)))
    if rest:
        parser.error(
            f"--num-instances {instances}: must be a multiple of the {len(hosts)} hosts"
        )
    if given.instances_per_host not in (None, per_host):
        count = f"are {len(hosts)} hosts" if hosts else "is one host"
        parser.error(
            f"--instances-per-host {given.instances_per_host}: there {count}, so it "
            f"must be {per_host}"
        )
    shown = given.only_output_from_instance
    if shown is not None and shown >= instances:
        parser.error(
            f"--only-output-from-instance {shown}: must be below --num-instances "
            f"{instances}"
        )
    return PoprunOptions(
        instances,
        replicas,
        given.ipus_per_replica,
        given.print_topology,
        shown,
        given.timeout,
        given.verbose,
        _script(given.program, parser) if hosts else _command(given.program, parser),
        hosts,
        given.allow_network,
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, plain_line(f"poprun: {message}") + "\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="poprun",
        usage="poprun [options] program [arguments]",
        description="Start a program as several instances, here or on --host; their "
        "replicas train one model together (PopDistStrategy).",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--num-instances", type=_count, default=1, metavar="N", help="processes")
    add("--num-replicas", type=_count, metavar="N", help="of all instances together")
    add("--ipus-per-replica", type=_count, default=1, metavar="N", help="default 1")
    add("--instances-per-host", type=_count, metavar="N", help="the same for all")
    add("-H", "--host", type=_hosts, metavar="A,B", help="machines of a Ray cluster")
    add("--allow-network", action="store_true", help="also public addresses of hosts")
    add("--only-output-from-instance", type=_index, metavar="I", help="drop the others")
    add("--timeout", type=_seconds, metavar="S", help="end all after so many seconds")
    add(
        "--print-topology",
        type=_answer,
        default=False,
        metavar="yes|no",
        help="say which replicas and IPUs each instance has",
    )
    add(
        *("-v", "-vv", "--vv", "--verbose"),
        dest="verbose",
        action="store_true",
        help="say what is started and how it ends",
    )
    for name in _WITHOUT_EFFECT:
        add(f"--{name}", metavar="X", help="accepted, without effect")
    add("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _command(program: list[str], parser: _Parser) -> tuple[str, ...]:
    program = program[1:] if program[:1] == ["--"] else program
    if not program:
        parser.error("no program to start: poprun [options] program [arguments]")
    if program[0] in ("python", "python3"):
        # The one that has the emulator, also where no environment is activated.
        return (sys.executable, *program[1:])
    if shutil.which(program[0]) is None:
        parser.error(f"{program[0]}: no such program")
    return tuple(program)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a whole number of at least 1"
        )
    return int(text)


def _index(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 0 on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a number of seconds above 0"
        )
    return seconds


def _answer(text: str) -> bool:
    if text.lower() not in _ANSWERS:
        raise argparse.ArgumentTypeError(f"{text!r} must be yes or no")
    return _ANSWERS[text.lower()]


def _script(program: list[str], parser: _Parser) -> tuple[str, ...]:
    """Return a script and its arguments: other machines have their own programs."""
    program = program[1:] if program[:1] == ["--"] else program
    if program[:1] not in (["python"], ["python3"]) or not program[1:2]:
        parser.error("on other hosts the program must be: python SCRIPT [arguments]")
    if program[1].startswith("-"):
        parser.error(f"{program[1]}: on other hosts Python takes no options")
    return tuple(program)


def _hosts(text: str) -> tuple[str, ...]:
    """Return the machines that are named, or none if it is this one alone."""
    here = ("localhost", "127.0.0.1", socket.gethostname())
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r} must be different names: a,b")
    if len(names) == 1 and names[0] in here:
        return ()
    return tuple(socket.gethostname() if name in here else name for name in names)
