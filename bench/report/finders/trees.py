"""The trees, made by `bench/trees` below the working folder, and what is to be found in them."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import sets
from .outputs import nul_blocks

TREES = {
    "a": "small files, 30 % copies",
    "b": "edited checkouts of source trees",
    "c": "large files, four groups of three",
    "d": "files that are equal but for 8 bytes in the middle",
    "e": "tiny files, 30 % copies",
}


@dataclass(frozen=True)
class Tree:
    folder: Path
    # What `made` says: how many files, bytes, sets, …
    made: dict

    @property
    def files(self):
        return self.folder / "files"

    def links(self):
        return sets.read_links((self.folder / "links").read_bytes())

    def expected(self):
        """The sets as they were made, normalised."""
        return sets.normalise(nul_blocks((self.folder / "sets").read_bytes()))

    def describe(self):
        made = self.made
        links = f", {made['links']:,} hard links" if made["links"] else ""
        return f"{made['files']:,} files{links}, {made['bytes'] / 1e6:,.0f} MB, {made['sets']:,} sets"


def make(program, tree, work, scale, bases, mark=""):
    """Left as it is if it is there already. With a mark it is one more, of the same content."""
    folder = work / f"{tree}-{scale:g}{mark}"
    command = [program, tree, folder, "--scale", f"{scale:g}"]
    if tree == "b":
        for base in bases:
            command += ["--base", base]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise OSError(run.stderr.strip())
    return Tree(folder, json.loads(run.stdout))


def crates(workspaces, home=None):
    """Unpacked dependencies of these, as cargo keeps them: lock files decide on the bytes, not the machine."""
    home = Path(home or os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    names = set()
    for workspace in workspaces:
        _fetch(workspace)
        lock = (workspace / "Cargo.lock").read_text()
        found = re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"\nsource = ', lock)
        names |= {f"{name}-{version}" for name, version in found}
    unpacked = {folder.name: folder for folder in sorted(home.glob("registry/src/*/*")) if folder.is_dir()}
    return [unpacked[name] for name in sorted(names & unpacked.keys())]


def _fetch(workspace):
    """Without a network there are fewer crates, or none: then sources are invented."""
    host = re.search(r"^host: (.+)$", _said(["rustc", "-vV"]), re.MULTILINE)
    if host:
        _said(["cargo", "fetch", "--locked", "--target", host.group(1)], workspace)


def _said(command, folder=None):
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=folder).stdout
    except FileNotFoundError:
        return ""


def file_system(folder):
    """Its kind, as `stat` calls it."""
    return _said(["stat", "-f", "-c", "%T", folder]).strip() or "unknown"
