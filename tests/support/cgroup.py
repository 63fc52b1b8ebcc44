"""Memory cgroups for tests, where the kernel lets us make them."""

import os
import pathlib
import unittest


class Cgroup:
    """A memory cgroup of version 2 or 1 with a limit; made on entry, removed on exit."""

    def __init__(self, limit_bytes):
        self.limit_bytes = limit_bytes
        self.path = None

    @staticmethod
    def parents():
        mounts = pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        for line in mounts:
            left, _, right = line.partition(" - ")
            kind, _, options = right.split(" ", 2)
            place = pathlib.Path(left.split(" ")[4])
            if kind == "cgroup2":
                yield place, "memory.max"
            elif kind == "cgroup" and "memory" in options.split(","):
                yield place, "memory.limit_in_bytes"

    def __enter__(self):
        reasons = ["no memory cgroup is mounted"]
        for parent, file in self.parents():
            path = parent / f"ullage-test-{os.getpid()}"
            try:
                path.mkdir()
            except OSError as fault:
                reasons.append(str(fault))
                continue
            self.path = path
            try:
                (path / file).write_text(str(self.limit_bytes), encoding="ascii")
                self.forbid_swap()
                return self
            except OSError as fault:
                reasons.append(str(fault))
                self.__exit__()
        raise unittest.SkipTest(f"no cgroup can be made: {'; '.join(reasons[-2:])}")

    def forbid_swap(self):
        for file, text in (("memory.swap.max", "0"),
                           ("memory.memsw.limit_in_bytes", str(self.limit_bytes))):
            try:
                (self.path / file).write_text(text, encoding="ascii")
            except OSError:
                pass

    def __exit__(self, *_):
        if self.path:
            self.path.rmdir()
            self.path = None

    def peak_bytes(self):
        for file in ("memory.peak", "memory.max_usage_in_bytes"):
            try:
                return int((self.path / file).read_text(encoding="ascii"))
            except OSError:
                pass
        return None

    def stat(self, name):
        """A number of memory.stat; None where the kernel does not tell it."""
        lines = (self.path / "memory.stat").read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) for line in lines if line.split()[0] == name), None)

    def prefix(self):
        """A command that moves itself into the cgroup before it becomes another."""
        return ["sh", "-c", f'echo $$ >"{self.path}/cgroup.procs" && exec "$@"', "sh"]
