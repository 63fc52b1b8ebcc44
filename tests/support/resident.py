"""Runs a command and prints what it had resident at most, in bytes, on the last line.

Meant to be run by an interpreter of its own (python3 -I -S): what a process ever had resident before it
starts another counts for that one too, so it must have little."""

import os
import sys

reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.dup2(writer, 1)
    os.execv(sys.argv[1], sys.argv[1:])
os.close(writer)
while text := os.read(reader, 65536):
    os.write(1, text)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss * 1024)
sys.exit(os.waitstatus_to_exitcode(status))
