"""Kernels from the distribution's packages, through an apt of our own.

Everything apt needs (lists, cache, status) lives in one folder of the cache, so the system's sources and
state stay as they are and nothing can be installed or upgraded by accident. Where the packages come from is
read from the system's own apt configuration at run time.
"""

import functools
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from trouble import Trouble

# (suite, whether the archive of security updates has it): between them every series from 5.10 on.
SUITES = [
    ("bullseye", False),
    ("bullseye-security", True),
    ("bookworm", False),
    ("bookworm-security", True),
    ("trixie-backports", False),
]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LISTS_LAST = 24 * 3600  # seconds until the package lists are asked for again
FLAVOURS = ("cloud", "rt", "std")
IMAGE = re.compile(r"linux-image-((\d+\.\d+)[\w.+~]*(?:-\d+)?)(?:-(cloud|rt))?-amd64$")


class Packages:
    def __init__(self, cache, refresh, say):
        self.apt, self.images, self.say = cache / "apt", cache / "images", say
        self.prepare()
        self.update(refresh)

    def prepare(self):
        for folder in ("lists/partial", "cache/archives/partial", "sources", "preferences", "state"):
            (self.apt / folder).mkdir(parents=True, exist_ok=True)
        (self.apt / "state/status").touch()

    def run(self, tool, *words, cwd=None):
        """Runs apt-get or apt-cache on the private folder."""
        settings = {
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
            "APT::Sandbox::User": "root",
            "Dir::Cache": self.apt / "cache",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": self.apt / "preferences",
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": self.apt / "sources",
            "Dir::State": self.apt / "state",
            "Dir::State::lists": self.apt / "lists",
            "Dir::State::status": self.apt / "state/status",
        }
        options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        return subprocess.run([tool, *options, *words], cwd=cwd, capture_output=True, text=True)

    def update(self, refresh):
        stamp = self.apt / "updated"
        if not refresh and stamp.exists() and time.time() - stamp.stat().st_mtime < LISTS_LAST:
            return
        self.say("reading the package lists")
        archive, security = archives()
        for old in (self.apt / "sources").iterdir():
            old.unlink()
        for suite, is_security in SUITES:
            uri = security if is_security else archive
            (self.apt / f"sources/{suite}.sources").write_text(
                f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYRING}\n"
            )
        done = self.run("apt-get", "update")
        if not self.known("linux-image-"):
            raise Trouble(f"apt-get update: {reason(done.stderr)}")
        if done.returncode != 0:
            self.say(f"some package lists are old or missing: {reason(done.stderr)}")
        stamp.touch()

    def known(self, prefix):
        return self.run("apt-cache", "pkgnames", prefix).stdout.split()

    def newest(self, series, flavour):
        """The release (`uname -r`) of the newest kernel of a series, or of all for `newest`."""
        found = {}
        for name in self.known("linux-image-"):
            match = IMAGE.match(name)
            if match and (match[3] or "std") == flavour and series in (match[2], "newest"):
                found[name.removeprefix("linux-image-")] = match[1]
        if not found:
            suites = ", ".join(suite for suite, _ in SUITES)
            raise Trouble(f"no package of a {series} kernel, flavour {flavour}, in {suites}")
        return max(found, key=lambda release: by_version(found[release]))

    def fetch(self, release):
        """The folder into which the packages of a release are unpacked."""
        target = self.images / release
        if target.exists():
            return target
        # Up to 6.18 the image holds all; later it is a stub, and a binary and a modules package hold it.
        wanted = [f"linux-{part}-{release}" for part in ("image", "binary", "modules")]
        wanted = [name for name in wanted if name in self.known("linux-")]
        scratch = self.images / f"{release}.part"
        shutil.rmtree(scratch, ignore_errors=True)
        (scratch / "deb").mkdir(parents=True)
        self.say(f"downloading {release}")
        done = self.run("apt-get", "download", *wanted, cwd=scratch / "deb")
        if done.returncode != 0:
            why = reason(done.stderr)
            raise Trouble(f"apt-get download {' '.join(wanted)}: {why} (--refresh reads the lists again)")
        for package in sorted((scratch / "deb").iterdir()):
            subprocess.run(["dpkg-deb", "-x", package, scratch / "root"], check=True)
        (scratch / "root").rename(target)
        shutil.rmtree(scratch)
        return target


def archives():
    """The URIs of the archive and of its security updates, as the system's apt knows them."""
    archive, security = os.environ.get("KERNELS_ARCHIVE"), os.environ.get("KERNELS_SECURITY")
    shown = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages", "Origin: Debian"],
        capture_output=True, text=True,
    ).stdout
    for uri, suite in (line.split() for line in shown.splitlines()):
        if suite.endswith("-security"):
            security = security or uri
        else:
            archive = archive or uri
    if not (archive and security and Path(KEYRING).exists()):
        raise Trouble(
            "this machine's apt knows no Debian archive: set KERNELS_ARCHIVE and KERNELS_SECURITY to the URIs of "
            "one and of its security updates, install debian-archive-keyring, or give paths of kernels"
        )
    return archive, security


@functools.cmp_to_key
def by_version(one, other):
    older = subprocess.run(["dpkg", "--compare-versions", one, "lt", other]).returncode == 0
    return -1 if older else int(one != other)


def reason(text):
    """The line of apt's that says why: its last error, else its first warning."""
    lines = text.strip().splitlines() or ["no word why"]
    return ([line for line in lines if line.startswith("E:")] or lines[:1])[-1]
