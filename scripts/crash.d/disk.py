"""A file system of its own, in a file: for what needs a certain one, and to take its power away."""
import os
import shutil
import subprocess
import sys

NEEDS = "needs root, loop devices, mkfs.xfs, mkfs.ext4 and xfs_io"


class Disk:
    """Mounted at `top`, which is None if that can't be had here."""

    def __init__(self, kind, folder):
        self.image, self.top = folder / f"{kind}.image", folder / kind
        self.device = None
        self.top.mkdir()
        with open(self.image, "wb") as file:
            file.truncate(400 << 20)
        tools = [f"mkfs.{kind}", "xfs_io"]
        if not all(map(shutil.which, tools)) or not (said_by(tools[0], "-q", self.image) is not None and self.mount()):
            self.top = None

    def mount(self):
        # By the same number again: what a plan says of files is true of them on their device.
        self.device = self.device or said_by("losetup", "--find", "--show", self.image)
        return self.device is not None and said_by("mount", self.device, self.top) is not None

    def lose_power(self):
        """What is not on disk by now is gone."""
        # Not even the log of the file system is written.
        subprocess.run(["xfs_io", "-x", "-c", "shutdown", self.top], check=True)
        subprocess.run(["umount", self.top], check=True)
        if not self.mount():
            raise OSError(f"{self.image} can't be mounted again")

    def sync(self):
        subprocess.run(["sync", "-f", self.top], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.top:
            subprocess.run(["umount", self.top], check=True)
        if self.device:
            subprocess.run(["losetup", "--detach", self.device], check=True)


def with_mounts_of_our_own():
    """Runs this program anew where nobody else sees, copies and so keeps its mounts; not where that can't be had."""
    if "CRASH_OWN_MOUNTS" not in os.environ and said_by("unshare", "--mount", "true") is not None:
        os.environ["CRASH_OWN_MOUNTS"] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])


def said_by(*command):
    """None: it failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
