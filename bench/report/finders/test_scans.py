"""A scan has a figure only if it began and ended as it should."""

import json
import os
import stat
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path

from ..bars import judge
from ..rounds import RunFailed
from . import limits, outputs, peers, scans, workloads
from .peers import TREE, Finder
from .runs import FinderRules, Runs
from .scans import Scans
from .test_runs import STOPWATCH
from .trees import Tree

# Remembers in the database whether it has scanned before. MODE is what it does wrong.
DUPES = """#!/bin/sh
database() { while [ "$1" != --database ]; do shift; done; echo "$2"; }
db=$(database "$@")
echo "$1 $(test -e "$db" && echo again)" >>"$LOG"
if [ "$1" = report ]; then
  second=b
  [ "$MODE" = other-sets ] && second=c
  echo '{"groups": [{"paths": ["'$FILES'/a", "'$FILES'/'$second'"]}]}'
  exit
fi
new=3; same=0; reads=2; state=complete
if [ -e "$db" ]; then new=0; same=3; reads=0; fi
[ "$MODE" = reads-again ] && reads=2
[ "$MODE" = interrupted ] && state=interrupted
printf '123456789012' >"$db"
echo '{"state": "'$state'", "files": 3, "new": '$new', "same": '$same', "reads": '$reads', "bytes_read": 0}'
"""
# With what it has kept of an earlier run, or without.
PEER = """#!/bin/sh
echo "$1 $(test -e "$XDG_CACHE_HOME/known" && echo again)" >>"$LOG"
# A setting is no cache.
echo x >"$HOME/settings"
mkdir -p "$XDG_CACHE_HOME"
[ "$1" = forgetful ] || echo x >"$XDG_CACHE_HOME/known"
printf "$2/a\\n$2/b\\n"
"""
WALK = """#!/bin/sh
printf 'folders 1\\nfiles %s\\nbytes 9\\n' "$SEEN"
"""
CACHED = Finder("cached", ("peer", "cached", TREE), outputs.blocks, cache=peers.IN_HOME)
FORGETFUL = Finder("forgetful", ("peer", "forgetful", TREE), outputs.blocks, cache=peers.IN_HOME)


class Remembering(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.log = self.folder / "log"
        tree = self.tree("tree")
        self.environment(LOG=self.log, FILES=tree.files, MODE="", SEEN=4)
        programs = {peers.OURS: self.script("dupes", DUPES), peers.WALK.name: self.script("walk", WALK)}
        programs |= dict.fromkeys(("cached", "forgetful"), self.script("peer", PEER))
        finders = [peers.DUPES, peers.WALK, CACHED, FORGETFUL]
        runs = Runs(self.script("stopwatch", STOPWATCH), self.folder / "scratch", tree, finders, programs)
        self.scans = Scans(runs, lambda: self.tree("own"))

    def tree(self, name):
        """Old enough to be remembered."""
        folder = self.folder / name
        (folder / "files").mkdir(parents=True)
        for file, text in {"sets": "a\0b\0\0", "links": "alias\0a\0", "made": ""}.items():
            (folder / file).write_text(text)
        for file in "ab":
            (folder / "files" / file).write_text("x")
        os.utime(folder / "made", (1, 1))
        return Tree(folder, {"files": 3, "links": 1})

    def script(self, name, text):
        file = self.folder / name
        file.write_text(text)
        os.chmod(file, stat.S_IRWXU)
        return file

    def environment(self, **values):
        for name, value in values.items():
            os.environ[name] = str(value)
            self.addCleanup(os.environ.pop, name, None)

    def attempt(self, workload, contender=peers.OURS):
        return self.scans.attempt((workload, contender), 60)

    def calls(self):
        calls = self.log.read_text().splitlines()
        self.log.write_text("")
        return [call.strip() for call in calls]

    def test_a_first_scan_finds_no_database_each_time(self):
        figures = self.attempt("a-scan")
        self.assertEqual((figures["seconds"], figures["bytes_per_file"]), (0.5, 4.0))
        self.assertEqual(self.calls(), ["scan", "scan", "report again"])
        self.attempt("a-scan")
        self.assertEqual(self.calls(), ["scan", "report again"])

    def test_a_rescan_follows_a_scan_that_is_not_counted(self):
        self.assertEqual(self.attempt("a-rescan")["seconds"], 0.5)
        self.assertEqual(self.calls(), ["scan", "scan again", "report again"])
        self.attempt("a-rescan")
        self.assertEqual(self.calls(), ["scan again", "report again"])

    def test_a_report_is_in_ms_and_comes_from_the_database_alone(self):
        self.assertEqual(self.attempt("b-report")["ms"], 500)
        self.assertEqual(self.calls(), ["scan", "report again", "report again"])

    def test_a_rescan_that_reads_has_no_figure(self):
        self.environment(MODE="reads-again")
        with self.assertRaisesRegex(RunFailed, "nothing has changed, and it read 2 times"):
            self.attempt("a-rescan")
        self.attempt("a-scan")

    def test_other_sets_have_no_figure_wherever_they_come_from(self):
        self.environment(MODE="other-sets")
        for workload in ("a-scan", "a-rescan", "b-report"):
            with self.assertRaisesRegex(RunFailed, r"another result: \[a c\] instead of \[a b\]"):
                self.attempt(workload)

    def test_a_scan_that_was_not_complete_has_no_figure(self):
        self.environment(MODE="interrupted")
        with self.assertRaisesRegex(RunFailed, "ended as interrupted"):
            self.attempt("a-scan")

    def test_a_cache_is_filled_before_it_is_measured(self):
        self.assertEqual(self.attempt("a-rescan", "cached")["seconds"], 0.5)
        self.assertEqual(self.calls(), ["cached", "cached again"])
        self.attempt("a-rescan", "cached")
        self.assertEqual(self.calls(), ["cached again"])
        # Whatever ours begins with has nothing to do with it.
        self.attempt("a-rescan")
        self.attempt("a-scan")
        self.calls()
        self.attempt("a-rescan", "cached")
        self.assertEqual(self.calls(), ["cached again"])
        # Of another tree, or another run: nothing.
        with self.scans:
            self.attempt("a-rescan", "cached")
        self.assertEqual(self.calls(), ["cached", "cached again"])
        self.assertFalse(self.scans.folder.exists())

    def test_who_keeps_nothing_has_no_cache(self):
        with self.assertRaisesRegex(RunFailed, "kept nothing"):
            self.attempt("a-rescan", "forgetful")

    def test_a_walk_must_see_every_name(self):
        self.assertEqual(self.attempt("a-rescan", peers.WALK.name)["seconds"], 0.5)
        self.environment(SEEN=3)
        with self.assertRaisesRegex(RunFailed, "seen 3 files of 4"):
            self.attempt("a-rescan", peers.WALK.name)

    def test_attributes_are_written_to_another_tree_which_is_deleted(self):
        if reason := scans.why_no_attributes(self.folder):
            self.skipTest(reason)
        write = "import os, sys; [os.setxattr(sys.argv[1] + name, 'user.x', b'1') for name in ('/a', '/b')]"
        self.script("peer", f'{PEER}"{sys.executable}" -c "{write}" "$2"\n')
        writer = Finder("cached", CACHED.command, outputs.blocks, cache=peers.IN_FILES)
        self.scans.runs.finders["cached"] = writer
        with self.scans:
            self.attempt("a-rescan", "cached")
            self.assertEqual(os.listxattr(self.folder / "own/files/a"), ["user.x"])
            self.assertEqual(os.listxattr(self.folder / "tree/files/a"), [])
        self.assertFalse((self.folder / "own").exists())
        self.assertTrue((self.folder / "tree").exists())

    def test_a_tree_that_was_just_made_is_waited_for(self):
        made = self.folder / "tree/made"
        now = time.time()
        os.utime(made, (now, now - scans.SETTLED_SECONDS + 0.2))
        scans.settle(self.scans.runs.tree)
        self.assertGreaterEqual(time.time() - made.stat().st_mtime, scans.SETTLED_SECONDS)


class TakingPart(unittest.TestCase):
    def names(self, workload):
        known = [peers.DUPES, *peers.PEERS, *peers.REFERENCES]
        return [finder.name for finder in known if workloads.takes_part(workload, finder)]

    def test_a_cache_is_for_what_has_not_changed(self):
        cached = [peer.name for peer in peers.PEERS if peer.cache]
        plain = [peer.name for peer in peers.PEERS if not peer.cache]
        self.assertEqual(self.names("a"), [peers.OURS, *plain])
        self.assertEqual(self.names("b-cold"), [peers.OURS, *plain])
        self.assertEqual(self.names("a-rescan"), [peers.OURS, *cached, "walk-and-stat"])
        self.assertEqual(self.names("e-scan"), [peers.OURS, "dupes-find"])
        self.assertEqual(self.names("b-report"), [peers.OURS])

    def test_who_is_measured_without_a_cache_is_told_so(self):
        for peer in peers.PEERS:
            if peer.program == "czkawka_cli":
                self.assertEqual("--disable-cache" in peer.command, not peer.cache, peer.name)

    def test_workloads_are_chosen_by_tree_and_name(self):
        self.assertEqual(workloads.of(["c", "e"]), ["c", "e", "e-scan"])
        self.assertEqual(workloads.of(["a", "b"], ["a-rescan", "b-report"]), ["a-rescan", "b-report"])
        with self.assertRaisesRegex(ValueError, "no workload c-scan; there are a, a-scan"):
            workloads.of(["c"], ["c-scan"])

    def test_filling_a_cache_takes_no_rounds_from_anybody(self):
        rules, options = FinderRules(), types.SimpleNamespace(quick=False, rounds=7)
        self.assertEqual(rules.rounds_of("a-rescan", "rmlint-xattr", options, 99.0), 7)
        self.assertEqual(rules.rounds_of("e-scan", peers.OURS, options, 1.0), 3)


class Judging(unittest.TestCase):
    roles = {peers.OURS: "ours", "rmlint-xattr": "peer", "dupes-find": "reference", "walk-and-stat": "reference"}

    def judge(self, workload, scale=1, **values):
        samples = {(workload, c.replace("_", "-")): figures for c, figures in values.items()}
        chosen = limits.of([workload], dict.fromkeys("abcde", scale))
        return [judge(bar, self.roles, samples)["line"] for bar in chosen]

    def test_a_rescan_is_held_against_caches_and_against_the_walk(self):
        lines = self.judge("b-rescan", dupes={"seconds": [0.4]}, rmlint_xattr={"seconds": [2.0]}, walk_and_stat={"seconds": [0.2]})
        self.assertEqual(
            lines,
            [
                "b-rescan ours 0.40 best rmlint-xattr 2.00 ratio 0.20 bar 0.25 ok",
                "b-rescan-walk ours 0.40 best walk-and-stat 0.20 ratio 2.00 bar 2.50 ok",
            ],
        )

    def test_without_a_cached_peer_there_is_nothing_to_be_best_of(self):
        lines = self.judge("b-rescan", dupes={"seconds": [0.4]}, walk_and_stat={"seconds": [0.1]})
        self.assertEqual(lines[0], "b-rescan ours 0.40 not compared")
        self.assertIn("ratio 4.00 bar 2.50 short", lines[1])

    def test_a_first_scan_is_held_against_a_search_and_its_memory_against_a_limit(self):
        figures = {"dupes": {"seconds": [3.0], "peak_mb": [200.0]}, "dupes_find": {"seconds": [2.5], "peak_mb": [90.0]}}
        lines = self.judge("e-scan", **figures)
        self.assertEqual(lines[0], "e-scan-find ours 3.00 best dupes-find 2.50 ratio 1.20 bar 1.50 ok")
        self.assertEqual(lines[1], "e-scan-peak_mb-limit ours 200 bar 250.00 ok")
        self.assertEqual(len(self.judge("e-scan", scale=0.1, **figures)), 1)

    def test_a_report_has_50_ms(self):
        self.assertEqual(self.judge("b-report", dupes={"ms": [61.0]}), ["b-report-limit ours 61 bar 50.00 short"])


class Reading(unittest.TestCase):
    def test_what_a_scan_says(self):
        told = {"state": "complete", "files": 3, "new": 3, "same": 0, "reads": 2, "bytes_read": 7}
        self.assertEqual(outputs.counts(json.dumps(told | {"folders": 1}).encode()), told)
        with self.assertRaises(KeyError):
            outputs.counts(b"{}")

    def test_what_a_walk_says(self):
        self.assertEqual(outputs.lines_of_counts(b"folders 2\nfiles 7\n"), {"folders": 2, "files": 7})


if __name__ == "__main__":
    unittest.main()
