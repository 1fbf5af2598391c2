"""The guest's initramfs: init, the program, the modules and the job, in one cpio archive.

Written here rather than by cpio: the archive can then hold a device node without anyone being root, and the
same input gives the same bytes.
"""

import stat

FOLDERS = ["dev", "proc", "sys", "tmp", "modules"]


def initramfs(init, program, modules, command, env, uid):
    """`command` is a list of words, the program's path in the guest is `/program`."""
    job = [f"module /modules/{name}" for name, _ in modules]
    job += [f"env {name}={value}" for name, value in env.items()]
    job += [f"uid {uid}"] if uid is not None else []
    job += [f"arg {word}" for word in command]
    archive = Archive()
    # The root's own mode counts: 0700 would lock every unprivileged process out of everything.
    archive.add(".", stat.S_IFDIR | 0o755)
    for folder in FOLDERS:
        archive.add(folder, stat.S_IFDIR | (0o1777 if folder == "tmp" else 0o755))
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add("init", stat.S_IFREG | 0o755, init)
    archive.add("program", stat.S_IFREG | 0o755, program)
    archive.add("job", stat.S_IFREG | 0o644, "".join(f"{line}\n" for line in job).encode())
    for name, code in modules:
        archive.add(f"modules/{name}", stat.S_IFREG | 0o644, code)
    return archive.finish()


class Archive:
    """The `newc` format: per entry a header of hexadecimal fields, the name, the content, each padded to 4."""

    def __init__(self):
        self.parts, self.entries = [], 0

    def add(self, name, mode, content=b"", device=(0, 0)):
        self.entries += 1
        path = name.encode() + b"\0"
        fields = [self.entries, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(path), 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        self.parts += [padded(header + path), padded(content)]

    def finish(self):
        self.add("TRAILER!!!", 0)
        return b"".join(self.parts)


def padded(data):
    return data + b"\0" * (-len(data) % 4)
