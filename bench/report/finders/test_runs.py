"""A run has a figure only if its result is that of the tree."""

import os
import stat
import tempfile
import types
import unittest
from pathlib import Path

from ..bars import judge
from ..rounds import RunFailed, TooSlow, interleave
from ..tables import table
from . import limits, outputs, peers, runs, system_calls
from .peers import RESULT, TREE, Finder
from .runs import FinderRules, Runs, parse_figures
from .trees import Tree, crates

STOPWATCH = """#!/bin/sh
out=$1; err=$2; shift 2
"$@" >"$out" 2>"$err"
code=$?
printf 'seconds 0.5\\ncpu_s 0.7\\npeak_kb 1000\\nswitches 3\\ncode %s\\n' $code
"""
PROGRAM = """#!/bin/sh
case "$1" in
  right) printf "$2/b\\n$2/a\\n\\n";;
  linked) printf "$2/b\\n$2/alias\\n$2/a\\n\\n";;
  file) printf "$2/a\\n$2/b\\n" >"$3";;
  wrong) printf "$2/a\\n$2/c\\n";;
  silent) ;;
  found) printf "$2/a\\n$2/b\\n"; exit 11;;
  crash) echo "no such thing" >&2; exit 101;;
  json) echo '{"groups": [{"paths": ["'$2'/a", "'$2'/b"]}]}';;
  hang) exec sleep 5;;
esac
"""


def finder(kind, **more):
    return Finder(kind, ("program", kind, TREE), outputs.blocks, **more)


class Running(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.script("program", PROGRAM)
        self.stopwatch = self.script("stopwatch", STOPWATCH)
        (self.folder / "sets").write_bytes(b"a\0b\0\0")
        (self.folder / "links").write_bytes(b"alias\0a\0")

    def script(self, name, text):
        file = self.folder / name
        file.write_text(text)
        os.chmod(file, stat.S_IRWXU)
        return file

    def running(self, *finders):
        programs = {f.name: self.program for f in finders}
        return Runs(self.stopwatch, self.folder / "scratch", Tree(self.folder, {}), finders, programs)

    def attempt(self, one, patience=60):
        return self.running(one).attempt(("a", one.name), patience)

    def test_a_right_result_has_figures(self):
        expected = {"seconds": 0.5, "peak_mb": 1.024, "cpu_s": 0.7, "switches": 3}
        for one in [finder("right"), finder("linked"), finder("found", codes=(0, 11))]:
            self.assertEqual(self.attempt(one), expected, one.name)

    def test_a_result_may_be_in_a_file(self):
        one = Finder("file", ("program", "file", TREE, RESULT), outputs.blocks)
        self.assertEqual(self.attempt(one)["seconds"], 0.5)

    def test_what_is_wrong_has_none(self):
        for kind, reason in {
            "wrong": r"another result: \[a c\] instead of \[a b\]",
            "silent": r"another result: no set instead of \[a b\]",
            "found": "exit code 11",
            "crash": "exit code 101: no such thing",
        }.items():
            with self.assertRaisesRegex(RunFailed, reason):
                self.attempt(finder(kind))

    def test_output_that_is_no_output_is_a_failure(self):
        one = Finder("right", ("program", "right", TREE), outputs.rmlint)
        with self.assertRaisesRegex(RunFailed, "can't be read"):
            self.attempt(one)

    def test_who_hangs_is_ended(self):
        with self.assertRaises(TooSlow):
            self.attempt(finder("hang"), patience=0.3)

    def test_rounds_tables_and_bars_know_them(self):
        ours = Finder(peers.OURS, ("program", "right", TREE), outputs.blocks)
        run = self.running(ours, finder("right"), finder("wrong"))
        options = types.SimpleNamespace(quick=True, rounds=2, seed=1, budget=60)
        names = [peers.OURS, "right", "wrong"]
        self.swap_json(Finder(peers.OURS, ("program", "json", TREE), outputs.dupes_json))
        results = interleave(run.attempt, FinderRules(), ["a"], names, options)
        self.assertEqual(results.samples["a", peers.OURS]["seconds"], [0.5, 0.5])
        self.assertEqual(list(results.failures), [("a", "wrong")])
        roles = {peers.OURS: "ours", "right": "peer", "wrong": "peer"}
        text = "\n".join(table("a", roles, results, "small files"))
        self.assertIn("a, small files", text)
        self.assertIn("wrong FAILED: another result", text)
        (bar,) = limits.of(["a"], {"a": 1})
        line = judge(bar, roles, results.samples, results.failures)["line"]
        self.assertEqual(line, "a ours 0.50 best right 0.50 ratio 1.00 bar 0.50 short")

    def test_ours_fails_by_its_json_alone(self):
        ours = Finder(peers.OURS, ("program", "right", TREE), outputs.blocks)
        self.swap_json(Finder(peers.OURS, ("program", "silent", TREE), outputs.dupes_json))
        with self.assertRaisesRegex(RunFailed, "can't be read"):
            self.attempt(ours)

    def swap_json(self, other):
        self.addCleanup(setattr, runs, "DUPES_JSON", runs.DUPES_JSON)
        runs.DUPES_JSON = other


class Judging(unittest.TestCase):
    roles = {peers.OURS: "ours", "yadf": "peer", "jdupes": "peer"}

    def judge(self, name, scale=1, **values):
        workload, figure = name.split("/")
        samples = {(workload, c): {figure: [v]} for c, v in values.items()}
        chosen = limits.of([workload], {workload: scale, "a": scale, "b": scale})
        return [judge(bar, self.roles, samples)["line"] for bar in chosen if bar.figure == figure]

    def test_memory_is_held_against_yadf_alone_and_a_limit(self):
        lines = self.judge("e/peak_mb", dupes=120.0, yadf=264.0, jdupes=100.0)
        self.assertEqual(
            lines,
            [
                "e-peak_mb-yadf ours 120 best yadf 264 ratio 0.45 bar 0.60 ok",
                "e-peak_mb-limit ours 120 best jdupes 100 bar 150.00 ok",
            ],
        )

    def test_a_smaller_tree_has_no_limit_of_memory(self):
        self.assertEqual(len(self.judge("e/peak_mb", scale=0.1, dupes=1.0, yadf=2.0)), 1)

    def test_a_cold_cache_has_bars_of_its_own(self):
        lines = self.judge("a-cold/seconds", dupes=5.0, yadf=8.0)
        self.assertEqual(lines, ["a-cold ours 5.00 best yadf 8.00 ratio 0.62 bar 0.80 ok"])

    def test_slow_peers_have_fewer_rounds_and_ours_never(self):
        rules, options = FinderRules(), types.SimpleNamespace(quick=False, rounds=7)
        self.assertEqual(rules.rounds_of("a", "jdupes", options, 1.0), 7)
        self.assertEqual(rules.rounds_of("a", "jdupes", options, 19.0), 7)
        self.assertEqual(rules.rounds_of("a", "jdupes", options, 99.0), 1)
        self.assertEqual(rules.rounds_of("a", peers.OURS, options, 99.0), 7)


class Commands(unittest.TestCase):
    def test_no_two_have_one_name(self):
        names = [p.name for p in peers.PEERS]
        self.assertEqual(len(names), len(set(names)))

    def test_everybody_is_told_the_tree_once(self):
        for one in [peers.DUPES, peers.DUPES_JSON, peers.SCAN, *peers.PEERS, *peers.REFERENCES]:
            command, _ = one.arguments("/bin/x", "/the/tree", "/the/result")
            self.assertEqual(command.count("/the/tree"), 1, one.name)
            self.assertFalse([a for a in command if "{" in a], one.name)

    def test_a_result_file_takes_the_place_of_stdout(self):
        commands = {one.name: one.arguments("x", "t", "r") for one in peers.PEERS}
        written = {name for name, (_, to_stdout) in commands.items() if not to_stdout}
        self.assertEqual({name.partition("-")[0] for name in written}, {"rmlint", "rdfind", "czkawka"})

    def test_peers_are_chosen_by_name_or_program(self):
        of_fclones = ["fclones", "fclones-tuned", "jdupes", "fclones-cache", "fclones-tuned-cache"]
        self.assertEqual([p.name for p in peers.select(["fclones", "jdupes"])], of_fclones)
        self.assertEqual([p.name for p in peers.select(["czkawka-xxh3"])], ["czkawka-xxh3"])
        with self.assertRaisesRegex(ValueError, "no peer x; there are"):
            peers.select(["x"])


class Reading(unittest.TestCase):
    def test_the_figures_of_the_stopwatch(self):
        said = "seconds 1.5\ncpu_s 2\npeak_kb 1000\nswitches 7\ncode 0\n"
        self.assertEqual(
            parse_figures(said), {"seconds": 1.5, "peak_mb": 1.024, "cpu_s": 2, "switches": 7, "code": 0}
        )

    def test_the_table_of_strace(self):
        calls = system_calls.parse(
            "% time     seconds  usecs/call     calls    errors syscall\n"
            "------ ----------- ----------- --------- --------- ----------------\n"
            " 60.00    0.600000           2       300           read\n"
            " 40.00    0.400000           4       100         3 openat\n"
            "------ ----------- ----------- --------- --------- ----------------\n"
            "100.00    1.000000           2       400         3 total\n"
        )
        self.assertEqual(calls, {"read": 300, "openat": 100})
        per_file = {call: n / 100 for call, n in calls.items()}
        self.assertEqual(system_calls.line("x", per_file), "system calls per file, x 4.00: read 3.00, openat 1.00")

    def test_crates_are_those_of_the_lock_file(self):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            for name in ("one-1.0.0", "two-2.0.0", "three-3.0.0"):
                (home / "registry/src/somewhere" / name).mkdir(parents=True)
            (home / "Cargo.lock").write_text(
                '[[package]]\nname = "one"\nversion = "1.0.0"\nsource = "x"\n\n'
                '[[package]]\nname = "three"\nversion = "3.0.1"\nsource = "x"\n\n'
                '[[package]]\nname = "two"\nversion = "2.0.0"\n'
            )
            self.assertEqual([c.name for c in crates([home], home)], ["one-1.0.0"])


if __name__ == "__main__":
    unittest.main()
