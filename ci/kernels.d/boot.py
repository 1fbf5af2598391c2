"""Boots one kernel under QEMU and collects what the command in it printed.

Pure emulation with an instruction counter: guest time then counts instructions instead of wall time, so a busy
host changes nothing but the wait, and two runs print the same. KVM is never used: it would bring back both.
"""

import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

MEMORY = "512"
TAIL = 12  # lines of the console that a report of trouble shows


@dataclass
class Run:
    status: int | None  # the command's; None: no result came
    output: bytes
    console: str
    seconds: float


def boot(image, initrd, processors, seconds):
    # More than one processor hangs under the instruction counter, so those run on wall time.
    clock = ["-icount", "shift=1,sleep=off"] if processors == 1 else []
    with tempfile.TemporaryDirectory() as folder:
        archive, console, result = (Path(folder) / name for name in ("initrd", "console", "result"))
        archive.write_bytes(initrd)
        command = [
            # An outer clock, as a guest whose time is counted in instructions can't give up by itself.
            "timeout", "--foreground", "--kill-after=5", str(seconds), "nice",
            "qemu-system-x86_64", "-accel", "tcg", *clock,
            "-rtc", "base=2026-01-01,clock=vm", "-seed", "1",
            "-M", "q35", "-cpu", "max", "-smp", str(processors), "-m", MEMORY,
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-serial", f"file:{console}", "-serial", f"file:{result}",
            "-kernel", str(image), "-initrd", str(archive),
            "-append", "console=ttyS0 panic=-1 quiet mitigations=off nokaslr",
        ]  # fmt: skip
        start = time.monotonic()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        wall = time.monotonic() - start
        text = read(console).decode(errors="replace")
        if done.returncode == 124:
            text += f"\nno result within {seconds} s"
        elif not text:
            text = f"an empty console: the machine stopped by itself after {wall:.1f} s"
        status, output = parse(read(result))
        return Run(status, output, printable(text + "\n" + done.stderr), wall)


def parse(result):
    """Init ends the command's output with a line of its own, which decides: QEMU's status has six bits only."""
    match = re.search(rb"\n@@vm exit=(\d+)\n\Z", result)
    return (int(match[1]), result[: match.start()]) if match else (None, result)


def read(path):
    return path.read_bytes() if path.exists() else b""


def printable(text):
    """Without the escapes and returns of a serial console, blank lines dropped."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1bc|[^\n\t -\U0010ffff]", "", text)
    return "\n".join(line for line in text.split("\n") if line.strip())


def tail(console):
    return "\n".join(f"    | {line}" for line in console.splitlines()[-TAIL:])
