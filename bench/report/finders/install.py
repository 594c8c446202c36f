"""Gets the peers: crates into a folder of ours, packages by the system's own tool where that is allowed."""

import os
import shutil
import subprocess


def install(finders, folder):
    """What can't be had is said and skipped. Says at the end who is here."""
    sources = dict.fromkeys(finder.source for finder in finders)
    packages = [name for kind, name in sources if kind == "apt" and not shutil.which(name)]
    lines = [*_packages(packages)]
    for kind, crate in sources:
        if kind == "cargo" and not (folder / "bin" / crate).exists():
            lines += _crate(crate, folder)
    return lines


def _packages(packages):
    if not packages:
        return []
    names = " ".join(packages)
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return [f"skipped {names}: by hand, as root: apt-get install {names}"]
    # One by one: what a release lacks must not keep the others out.
    lines = []
    for package in packages:
        command = ["apt-get", "install", "--yes", "--no-install-recommends", package]
        lines += _done(package, command)
    return lines


def _crate(crate, folder):
    """With the lock file its author has tested; low priority, since it takes minutes."""
    command = ["nice", "-n", "19", "cargo", "install", "--locked", "--root", str(folder), crate]
    return _done(crate, command)


def _done(name, command):
    print(f"installing {name}", flush=True)
    run = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if run.returncode == 0:
        return [f"installed {name}"]
    reason = next((line for line in run.stderr.splitlines() if line.lower().startswith(("e:", "error"))), "it failed")
    return [f"skipped {name}: {reason.strip()}"]
