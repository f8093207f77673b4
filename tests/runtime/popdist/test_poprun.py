"""What `poprun` starts, shows and ends; the programs are shells, not trainings."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from ipu_runtime.popdist.poprun import main

POPRUN = (sys.executable, "-m", "ipu_runtime.popdist.poprun")
WAITS = "echo $$; sleep 120 & echo $!; wait"
"""Tells its process and one that it has started, and goes on."""


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (*POPRUN, *arguments), capture_output=True, text=True, timeout=60
    )


def _start(*arguments: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start instances that wait; return their processes once they have begun."""
    poprun = subprocess.Popen(
        (*POPRUN, "--num-instances", "2", *arguments, "sh", "-c", WAITS),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert poprun.stdout is not None
    lines = [poprun.stdout.readline() for _ in range(4)]
    return poprun, [os.pidfd_open(int(line.split()[1])) for line in lines]


def _all_end(processes: list[int]) -> bool:
    return all(select.select([one], [], [], 30)[0] for one in processes)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--num-instances 0 ls", "'0' must be a whole number of at least 1"),
        ("--num-instances two ls", "'two' must be"),
        ("--num-instances 2 --num-replicas 3 ls", "a multiple of --num-instances 2"),
        ("--num-instances 2 --only-output-from-instance 2 ls", "below"),
        ("--instances-per-host 2 ls", "there is one host"),
        ("--host other,localhost ls", "must be a multiple of the 2 hosts"),
        ("--host other ls", "the program must be: python SCRIPT"),
        ("--host other python -c 1", "on other hosts Python takes no options"),
        ("--host a,a python x.py", "must be different names"),
        ("--timeout -1 ls", "seconds above 0"),
        ("--print-topology maybe ls", "yes or no"),
        ("--num-instance 2 ls", "unrecognized arguments: --num-instance"),
        ("--num-instances 2", "no program"),
        ("no-such-program", "no such program"),
    ],
)
def test_bad_values_get_one_line(
    arguments: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert says in message
    assert message.startswith("poprun: ")
    assert message.count("\n") == 1


def test_instances_know_their_place_and_are_told_apart() -> None:
    script = (
        "echo $POPDIST_NUM_TOTAL_REPLICAS $POPDIST_NUM_LOCAL_REPLICAS "
        "$POPDIST_NUM_IPUS_PER_REPLICA $POPDIST_REPLICA_INDEX_OFFSET; echo e >&2"
    )
    ran = _run(
        *("--num-instances", "2", "--num-replicas", "4", "--ipus-per-replica", "2"),
        *("--print-topology", "yes", "--mpi-global-args", "-x A", "sh", "-c", script),
    )
    assert ran.returncode == 0
    assert sorted(ran.stdout.splitlines()) == ["[0] 4 2 2 0", "[1] 4 2 2 2"]
    assert sorted(ran.stderr.splitlines()) == [
        "[0] e",
        "[1] e",
        "poprun: --mpi-global-args has no effect here",
        "poprun: instance 0 on localhost: replicas 0 to 1, IPUs 0 to 3",
        "poprun: instance 1 on localhost: replicas 2 to 3, IPUs 4 to 7",
    ]


def test_one_instance_that_fails_ends_all() -> None:
    script = "if [ $POPDIST_LOCAL_INSTANCE_INDEX = 1 ]; then kill -9 $$; fi; sleep 120"
    ran = _run(
        *("--num-instances", "3", "--only-output-from-instance", "0"),
        *("sh", "-c", f"echo here; {script}"),
    )
    assert ran.returncode == 128 + signal.SIGKILL
    assert ran.stdout == "[0] here\n"
    assert ran.stderr == "poprun: instance 1 has ended with exit code 137\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_process(number: signal.Signals) -> None:
    poprun, processes = _start()
    poprun.send_signal(number)
    assert poprun.wait(30) == 128 + number
    assert _all_end(processes)


def test_instances_end_with_a_killed_poprun() -> None:
    poprun, processes = _start()
    poprun.kill()
    assert _all_end(processes)
    poprun.wait(30)


def test_the_timeout_ends_all() -> None:
    poprun, processes = _start("--timeout", "1")
    assert poprun.wait(30) == 124
    assert _all_end(processes)
