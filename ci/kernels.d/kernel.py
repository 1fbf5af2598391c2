"""From a SPEC on the command line to an image to boot and the modules to load."""

import gzip
import lzma
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from packages import FLAVOURS
from trouble import BadArguments, Trouble

PRELOAD = ["af_packet", "veth", "sch_tbf", "inet_diag", "tcp_diag", "mptcp_diag"]
NAMED = re.compile(r"(newest|\d+\.\d+)(?::(\w+))?$")
PATH = re.compile(r"(?:([\w.+-]+)=)?([^:]*/[^:]*)(?::(.+))?$")


@dataclass
class Spec:
    """One kernel as asked for: by name from packages, by path, or the running one."""

    text: str
    label: str
    series: str = ""
    flavour: str = ""
    image: Path | None = None
    modules: Path | None = None

    @property
    def running(self):
        return self.label == "running" and not self.image

    @staticmethod
    def parse(text):
        if text == "running":
            return Spec(text, text)
        if named := NAMED.match(text):
            series, flavour = named[1], named[2] or "cloud"
            if flavour not in FLAVOURS:
                raise BadArguments(f"{text}: flavour is one of {', '.join(FLAVOURS)}")
            return Spec(text, f"{series}-{flavour}", series, flavour)
        if path := PATH.match(text):
            image, modules = Path(path[2]), path[3] and Path(path[3])
            if not image.is_file():
                raise BadArguments(f"{image}: no such kernel image")
            if modules and not modules.is_dir():
                raise BadArguments(f"{modules}: no such folder of modules")
            return Spec(text, path[1] or release_of(image), image=image, modules=modules)
        raise BadArguments(f"{text}: not SERIES[:FLAVOUR], newest, running or a path with a / in it")


@dataclass
class Kernel:
    label: str
    release: str
    image: Path
    modules: list  # (file name, content), in the order in which they load


def obtain(spec, packages, extra_modules):
    """Finds the image and its modules, in `packages` where the spec names a series."""
    wanted = PRELOAD + extra_modules
    if spec.image:
        return Kernel(spec.label, release_of(spec.image), spec.image, load_list(spec.modules, wanted))
    release = packages.newest(spec.series, spec.flavour)
    root = packages.fetch(release)
    image = first(root / f"boot/vmlinuz-{release}", root / f"usr/lib/modules/{release}/vmlinuz")
    modules = first(root / f"lib/modules/{release}", root / f"usr/lib/modules/{release}")
    if not (modules / "modules.dep").exists():  # packages leave it to their installation; takes seconds
        (modules / "modules.dep").write_text(depmod(modules))
    return Kernel(spec.label, release, image, load_list(modules, wanted))


def first(*paths):
    for path in paths:
        if path.exists():
            return path
    raise Trouble(f"neither {' nor '.join(map(str, paths))} is in the packages: has their layout changed?")


def release_of(image):
    """The release that a bzImage names in its header."""
    with open(image, "rb") as file:
        head = file.read(0x8200)
    if head[0x202:0x206] != b"HdrS":
        raise BadArguments(f"{image}: not a bzImage (x86 boot header missing)")
    start = struct.unpack_from("<H", head, 0x20E)[0] + 0x200
    return head[start:].split(b"\0", 1)[0].split(b" ", 1)[0].decode(errors="replace")


def load_list(folder, wanted):
    """The wanted modules and what they need, needed ones first. What is built in or absent is left out."""
    if folder is None:
        return []
    needs = dependencies(folder)
    by_name = {module_name(path): path for path in needs}
    order = []

    def add(path):
        for needed in needs[path]:
            add(needed)
        if path not in order:
            order.append(path)

    for name in wanted:
        if name in by_name:
            add(by_name[name])
    return [(f"{module_name(path)}.ko", content(folder / path)) for path in order]


def dependencies(folder):
    """What each module needs, from the folder's modules.dep or, where it has none, as depmod works it out."""
    known = folder / "modules.dep"
    text = known.read_text() if known.exists() else depmod(folder)
    lines = re.findall(r"^(\S+\.ko(?:\.\w+)?):(.*)$", text, re.MULTILINE)
    return {path: needed.split() for path, needed in lines}


def depmod(folder):
    """The text of a modules.dep; nothing is written into the folder."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "lib/modules"
        home.mkdir(parents=True)
        (home / "0.0").symlink_to(folder.resolve())  # depmod wants a name that looks like a version
        done = subprocess.run(["depmod", "-n", "-b", scratch, "0.0"], capture_output=True, text=True)
    if done.returncode != 0:
        raise Trouble(f"depmod on {folder}: {done.stderr.strip()}")
    return done.stdout


def module_name(path):
    return Path(path).name.split(".ko")[0].replace("-", "_")


def content(path):
    match path.suffix:
        case ".ko":
            return path.read_bytes()
        case ".xz":
            return lzma.decompress(path.read_bytes())
        case ".gz":
            return gzip.decompress(path.read_bytes())
        case ".zst":
            return subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout
    raise Trouble(f"{path}: a compression this script doesn't know")
