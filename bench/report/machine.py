"""What a reader must know of the machine, and nothing about whose it is."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
# In the manifest, and no contender's.
_NOT_MEASURED = {"tidegate-conformance", "libc"}


def machine():
    """No name of a host and no suffix of a kernel: these tell where it stands."""
    cpuinfo = CPUINFO.read_text() if CPUINFO.exists() else ""
    return {
        "cpu": cpu_model(cpuinfo),
        "cores": os.cpu_count(),
        "virtual": "hypervisor" in cpuinfo,
        "system": f"{platform.system()} {plain_version(platform.release())}, {platform.machine()}",
        "libc": " ".join(platform.libc_ver()).strip(),
    }


def cpu_model(cpuinfo):
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    text = model.group(1) if model else platform.processor() or "unknown"
    return " ".join(re.sub(r"\((R|TM|r|tm)\)", "", text).split())


def plain_version(release):
    version = re.match(r"\d+(\.\d+)*", release)
    return version.group() if version else ""


def versions(bench):
    """Of the peers: what the lock file says of the dependencies in `Cargo.toml`; of the compilers."""
    manifest = (bench / "Cargo.toml").read_text()
    wanted = set(re.findall(r"^([a-z_-]+) = ", manifest, re.MULTILINE)) - _NOT_MEASURED
    locked = re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"', (bench / "Cargo.lock").read_text())
    found = {name: version for name, version in locked if name in wanted}
    found["rustc"] = plain_version(_said(["rustc", "--version"], bench).removeprefix("rustc "))
    if shutil.which("go"):
        found["go"] = plain_version(_said(["go", "version"], bench).removeprefix("go version go"))
    return found


def commit(bench):
    """The commit that was measured; with a `+` when the files differed from it."""
    short = _said(["git", "rev-parse", "--short=12", "HEAD"], bench)
    changed = _said(["git", "status", "--porcelain", "--untracked-files=no"], bench)
    return f"{short}+" if changed else short


def _said(command, folder):
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=folder).stdout.strip()
    except FileNotFoundError:
        return ""
