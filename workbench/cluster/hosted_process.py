"""A process on some machine of a cluster; this is what Ray runs there."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from ipu_runtime.popdist.launched_job import (
    end_all,
    free_address,
    guarded,
    tell_when_ended,
)

_MOST_LINES = 1000


@dataclass(frozen=True, slots=True)
class News:
    """What has happened to a process since it was last asked for."""

    lines: list[str]
    """Of its standard output."""
    log: bytes
    """Of its standard error."""
    files: dict[str, bytes | None] = field(default_factory=dict)
    """Those it has written below its directory, and None for those it has removed."""
    code: int | None = None
    """Its exit code once it has ended, and all of the above has been told."""


class HostedProcess:
    """Starts one process where Ray has placed it, and tells of it when asked."""

    def __init__(self) -> None:
        self._ending = ExitStack()
        self._folder = Path(tempfile.mkdtemp(prefix="ipu-workbench-"))
        self._ending.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._record = self._folder / "record"
        self._record.mkdir()
        self._log = self._folder / "log"
        self._log_read = 0
        self._sent: dict[str, tuple[int, int]] = {}
        self._came: queue.SimpleQueue[str | int] = queue.SimpleQueue()
        self._process: subprocess.Popen[str] | None = None

    def place(self) -> tuple[str, str]:
        """Return where an instance may listen, and the directory of the record."""
        # Whoever asks is Ray, so it is there.
        from ray.util import get_node_ip_address

        return free_address(get_node_ip_address()), str(self._record)

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        files: Mapping[str, bytes] = MappingProxyType({}),
        first_line: str = "",
        folder: str | None = None,
    ) -> None:
        """Start the process.

        Args:
            command: What this machine's Python is given.
            environment: Added to this machine's.
            files: Content of the record's directory, by name.
            first_line: For its input.
            folder: Where it works; by default where Ray has put what was shipped.
        """
        for name, content in files.items():
            path = self._record / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._sent = self._stamps()
        guard = self._ending.enter_context(guarded())
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=folder,
                env={
                    **os.environ,
                    "IPU_WORKBENCH_HOME": str(self._folder / "home"),
                    **environment,
                },
                stdin=subprocess.PIPE if first_line else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        print(process.pid, file=guard, flush=True)
        self._ending.callback(end_all, [process])
        self._process = process
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        if first_line:
            self.tell(first_line)

    def tell(self, line: str) -> None:
        """Write a line to the process's input; one that is gone hears nothing."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def news(self, timeout_s: float) -> News:
        """Return what has happened, as soon as something has."""
        # Looked for before lines are: what a file holds was told before it was written,
        # and a checkpoint without its epoch's line would leave a gap.
        stamps = self._stamps()
        came: list[str | int] = []
        with suppress(queue.Empty):
            came.append(self._came.get(timeout=timeout_s))
            while len(came) < _MOST_LINES and isinstance(came[-1], str):
                came.append(self._came.get_nowait())
        lines = [item for item in came if isinstance(item, str)]
        code = next((item for item in came if isinstance(item, int)), None)
        if code is not None:
            stamps = self._stamps()
        return News(lines, self._new_log(), self._new_files(stamps), code)

    def end(self) -> None:
        """End the process with all that it has started, and leave nothing behind."""
        self._ending.close()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._came.put(line)
        tell_when_ended(0, process, lambda ended: self._came.put(ended[1]))

    def _new_log(self) -> bytes:
        with self._log.open("rb") as log:
            log.seek(self._log_read)
            content = log.read()
        self._log_read += len(content)
        return content

    def _new_files(self, now: dict[str, tuple[int, int]]) -> dict[str, bytes | None]:
        files: dict[str, bytes | None] = {}
        for name, stamp in now.items():
            if self._sent.get(name) != stamp:
                # It may have been replaced or removed meanwhile; then it comes next.
                with suppress(FileNotFoundError):
                    files[name] = (self._record / name).read_bytes()
        files |= {name: None for name in self._sent if name not in now}
        self._sent = now
        return files

    def _stamps(self) -> dict[str, tuple[int, int]]:
        stamps = {}
        for path in self._record.rglob("*"):
            with suppress(FileNotFoundError):
                status = path.stat()
                # A file that is being written has a hidden name until it is whole.
                if path.is_file() and not path.name.startswith("."):
                    name = str(path.relative_to(self._record))
                    stamps[name] = status.st_mtime_ns, status.st_size
        return stamps
