"""Commands as in a container: another user than the package's, no home, nothing that can be written but what is named.

As root: uid 65534 in a mount namespace of its own, all of it read-only, with small disks of memory where asked for; reading
is allowed as an image would allow it. Without root: the user of the tests, with a copy of the package that cannot be
written; disks are folders, and their size is a limit on files.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import evenstep

NOBODY = 65534


def is_root():
    """Whether there can be a user, a root and disks of its own."""
    if os.getuid() or not (shutil.which("unshare") and shutil.which("setpriv")):
        return False
    return subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0


@dataclass
class Container:
    """Where commands run.

    Args:
        folder: of the test.
        disks: folders that can be written, each with its size in bytes; what is on such a disk ends with its command.
            0 = as large as the machine's, and it stays.
    """

    folder: Path
    disks: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self):
        self._started = []
        self.package = self.folder / "site" / "evenstep"
        shutil.copytree(Path(evenstep.__file__).parent, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (self.package, *self.package.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)

    def start(self, *words, **env):
        """A command, under way."""
        given = {"PYTHONPATH": str(self.folder / "site"), "HOME": "/nonexistent", "PATH": os.environ["PATH"]}
        command = [sys.executable, "-m", "evenstep", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": "/", "start_new_session": True}
        if not is_root():
            process = subprocess.Popen(command, env={**given, **env}, **pipes)
            self._started.append(process)
            self._limit(process, min(filter(None, self.disks.values()), default=0))
            return process
        for place in self.disks:
            place.chmod(0o777)
        mounts = [
            f"mount -t tmpfs -o size={size},mode=777 none '{place}'" if size else f"mount --bind '{place}' '{place}'"
            for place, size in self.disks.items()
        ]
        script = "; ".join(["set -e", "mount --make-rprivate /", *mounts, "mount -o remount,bind,ro /", 'exec "$@"'])
        keeps = "-all,+dac_read_search"  # the interpreter may be in a folder that only root may enter
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", f"--inh-caps={keeps}"]
        user += [f"--ambient-caps={keeps}", "--no-new-privs"]
        whole = ["unshare", "-m", "sh", "-c", script, "sh", *user, *command]
        process = subprocess.Popen(whole, env={**given, **env}, **pipes)
        self._started.append(process)
        return process

    def run(self, *words, **env):
        """A command to its end: exit code, stdout, stderr."""
        with self.start(*words, **env) as process:
            out, err = process.communicate(timeout=900)
        return process.returncode, out, err

    def end(self):
        """Kill what the commands left behind: a process that compiles outlives its command, and writes on."""
        for process in self._started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def inside(self, process, place):
        """A folder as the command sees it."""
        return Path(f"/proc/{process.pid}/root{place}") if is_root() else place

    def free(self, process, place):
        """Make room on a disk."""
        for file in self.inside(process, place).iterdir():
            file.unlink()
        if not is_root():
            self._limit(process, 0)

    def _limit(self, process, size):
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size or hard, hard))
