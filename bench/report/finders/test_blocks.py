"""What the document about `dupes` shows is what was measured, and by whom."""

import json
import tempfile
import types
import unittest
from pathlib import Path

from .. import explanations, results_file as results_files
from ..bars import judge, slow_modes
from ..publications import DUPES
from ..record import text
from ..rounds import Results
from . import blocks, limits, peers, record as records, workloads as kinds
from .trees import TREES

ROOT = Path(__file__).resolve().parents[3]
ROLES = {peers.OURS: "ours", "yadf": "peer", "jdupes": "peer", "rdfind": "peer", "fclones-cache": "peer"}
ROLES |= {"dupes-find": "reference", "walk-and-stat": "reference"}
FINDERS = {f.name: f for f in [peers.DUPES, *peers.PEERS, *peers.REFERENCES] if f.name in ROLES}
WORKLOADS = tuple(kinds.ALL)
SECONDS = {peers.OURS: 1.0, "yadf": 4.0, "jdupes": 5.0, "rdfind": 8.0}
SECONDS |= {"fclones-cache": 5.0, "dupes-find": 0.8, "walk-and-stat": 0.5}
PEAK_MB = {peers.OURS: 100.0, "yadf": 250.0, "jdupes": 90.0, "rdfind": 300.0}


def results_file(workloads=WORKLOADS, rounds=7, cold_rounds=5, scale=1, failures=None, seconds=None, **changes):
    """As `bench/dupes` writes it, by the same functions; `seconds` are those of ours."""
    results = Results(rounds=rounds, seconds=3000.4, failures=failures or {})
    for pair in ((w, c) for w in workloads for c in ROLES if kinds.takes_part(w, FINDERS[c])):
        if pair in results.failures:
            continue
        times = cold_rounds if kinds.is_cold(pair[0]) else rounds
        for figure, value in figures_of(*pair, seconds).items():
            results.samples[pair][figure] = [value] * min(times, kinds.FULL_ROUNDS_OF.get(pair[0], times))
    trees = dict.fromkeys(map(kinds.tree_of, workloads))
    known = {
        "commit": "abcdef",
        "machine": {"cpu": "Abacus 9", "cores": 2, "virtual": True, "system": "Linux 6.1", "libc": "glibc 2.36"}
        | {"file_system": "ext2/ext3"},
        "versions": {peers.OURS: "0.1.0", "yadf": "1.3.0", "jdupes": "1.21.3", "rdfind": "1.5.0"},
        "left_out": ["rmlint left out: no rmlint here", "system calls of yadf not counted: /opt/me/x/calls is gone"],
        "trees": {tree: made(tree, scale) for tree in trees},
        "system_calls_per_file": {"jdupes": {"read": 3.0, "openat": 2.25}, peers.OURS: dict.fromkeys("abcdefgh", 0.5)},
    }
    judged = [judge(b, ROLES, results.samples, results.failures) for b in limits.of(workloads, dict.fromkeys(trees, scale))]
    slow = list(slow_modes(workloads, ROLES, results.samples))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dupes.json"
        options = types.SimpleNamespace(quick=False, only=list(trees), seed=7, json=file)
        results_files.write(options, known, workloads, ROLES, results, judged, slow)
        return json.loads(file.read_text()) | changes


def figures_of(workload, contender, seconds):
    median = seconds if seconds and contender == peers.OURS else SECONDS[contender]
    time = {"ms": 20.0} if workload == "b-report" else {"seconds": median}
    figures = time | {"peak_mb": PEAK_MB.get(contender, 50.0), "cpu_s": 2 * median, "switches": 12345.0}
    is_stored = contender == peers.OURS and kinds.kind_of(workload) == kinds.FIRST_SCAN
    return figures | ({"bytes_per_file": 180.0} if is_stored else {})


def made(tree, scale):
    """What `bench/trees` prints."""
    return {
        **{"tree": tree, "version": 1, "scale": scale, "seed": 1, "bases": 12 if tree == "b" else 0, "bases_hash": "0"},
        **{"files": 200_000, "bytes": 1_600_000_000, "links": 0, "sets": 1234, "redundant": 60_000, "hash": "0"},
    }


def record(**changes):
    return records.condense(results_file(**changes))


class Records(unittest.TestCase):
    def test_what_is_written_can_be_read(self):
        self.assertEqual(json.loads(text(record())), record())

    def test_rounds_are_those_of_ours_by_what_is_measured(self):
        # The file has those of the last workload, which may have been a cold one.
        run = records.condense(results_file(cold_rounds=2) | {"rounds": 2})
        self.assertEqual((run["rounds"], run["cold_rounds"], run["scan_rounds"]), (7, 2, 7))

    def test_of_system_calls_the_most_frequent_are_kept_and_the_sum_of_all(self):
        kept = record()["system_calls_per_file"][peers.OURS]
        self.assertEqual((kept["all"], len(kept["most"])), (4.0, 6))

    def test_no_path_of_the_machine_is_kept(self):
        self.assertIn("system calls of yadf not counted: calls is gone", record()["left_out"])

    def test_a_peer_that_was_not_asked_is_named(self):
        left_out = record()["left_out"]
        self.assertIn("fdupes left out: not asked", left_out)
        self.assertNotIn("rmlint left out: not asked", left_out)
        self.assertNotIn("yadf left out: not asked", left_out)

    def test_a_run_of_everything_is_no_trial(self):
        self.assertEqual(records.why_trial(record()), [])
        self.assertEqual(records.why_trial(record(rounds=5, cold_rounds=1)), [])

    def test_anything_less_is_a_trial(self):
        on = {tree: [w for w in WORKLOADS if kinds.tree_of(w) == tree] for tree in TREES}
        warm_only = [w for w in WORKLOADS if not kinds.is_cold(w)]
        no_report = [w for w in WORKLOADS if w not in ("a-rescan", "b-report")]
        for change, reasons in (
            ({"quick": True}, ["--quick"]),
            ({"workloads": [*on["a"], *on["b"], *on["c"]]}, ["no tree d, e"]),
            ({"workloads": [*on["c"], *on["d"], *on["e"]]}, ["no tree a, b", "0 scan rounds instead of 5"]),
            ({"scale": 0.5}, ["not the size of the bars: tree a, b, c, d, e"]),
            ({"workloads": warm_only}, ["no cold cache: tree a, b"]),
            ({"workloads": no_report}, ["no a-rescan, b-report"]),
            ({"rounds": 4}, ["4 warm rounds instead of 5", "4 scan rounds instead of 5"]),
        ):
            self.assertEqual(records.why_trial(record(**change)), reasons)

    def test_where_ours_failed_the_others_tell_the_rounds(self):
        failed = {("c", peers.OURS): "exit code 101", ("a-cold", peers.OURS): "exit code 101"}
        self.assertEqual(records.why_trial(record(failures=failed)), [])
        everywhere = {(workload, peers.OURS): "exit code 101" for workload in WORKLOADS}
        reasons = ["0 warm rounds instead of 5", "0 scan rounds instead of 5"]
        self.assertEqual(records.why_trial(record(failures=everywhere)), reasons)


class Blocks(unittest.TestCase):
    def made(self, **changes):
        return blocks.blocks(record(**changes))

    def test_the_headline_has_a_line_for_all_that_has_peers(self):
        lines = self.made()["headline"].splitlines()
        self.assertEqual(len(lines), 2 + len([w for w in WORKLOADS if kinds.has_peers(w)]) + 2)
        self.assertEqual(lines[2], "| small files, 30 % copies, warm cache | 200,000 | **1.00** | 4.00 (`yadf`) | 0.25 |")
        rescan = "scan of what has not changed | 200,000 | **1.00** | 5.00 (`fclones-cache`) | 0.20 |"
        self.assertEqual(lines[3], f"| small files, 30 % copies, {rescan}")
        self.assertIn("| small files, 30 % copies, cold cache | 200,000 |", lines[4])
        self.assertIn("ext2/ext3; medians of 7 interleaved rounds (5 with a cold cache); ", lines[-1])
        self.assertNotIn("first scan", "".join(lines))

    def test_scans_stand_beside_what_they_are_held_against(self):
        rows = self.made()["scans"].splitlines()[2:]
        small = "| small files, 30 % copies,"
        self.assertEqual(
            rows[:3],
            [
                f"{small} first scan into a database | 200,000 | **1.00 s** | 100 | *dupes-find* | 0.80 s | 1.25 |",
                f"{small} scan of what has not changed | 200,000 | **1.00 s** | 100 | fclones-cache | 5.00 s | 0.20 |",
                f"{small} scan of what has not changed | 200,000 | **1.00 s** | 100 | *walk-and-stat* | 0.50 s | 2.00 |",
            ],
        )
        self.assertIn("report of all sets, from the database | 200,000 | **20 ms** | 100 | | | |", rows[-2])
        failed = self.made(failures={("a-scan", peers.OURS): "exit code 101"})["scans"]
        self.assertIn("first scan into a database | 200,000 | failed | | | | |", failed)

    def test_bytes_in_the_database_are_those_of_one_file(self):
        rows = self.made()["database"].splitlines()
        self.assertEqual(rows[2], "| a, small files, 30 % copies | 200,000 | 180 | 36 |")
        self.assertEqual([row[2] for row in rows[2:]], ["a", "b", "e"])
        self.assertEqual(self.made(workloads=("c",))["database"], "Not measured in this run.")

    def test_who_has_another_result_is_not_the_best_peer(self):
        other = {("a", "yadf"): "another result: [a c] instead of [a b], 2 sets differ"}
        made = self.made(failures=other)
        self.assertIn("| **1.00** | 5.00 (`jdupes`) | 0.20 |", made["headline"].splitlines()[2])
        self.assertNotIn("yadf", made["tree-a"].split("cold seconds")[0])
        self.assertIn("| a | 1,234 | dupes, jdupes, rdfind, fclones-cache | yadf |", made["agreement"])
        self.assertIn("| b | 1,234 | dupes, yadf, jdupes, rdfind, fclones-cache |  |", made["agreement"])
        self.assertIn("a yadf: another result: [a c] instead of [a b]", made["agreement"])

    def test_one_wrong_cold_run_is_a_disagreement_about_the_tree(self):
        made = self.made(failures={("b-cold", "jdupes"): "another result"})
        self.assertIn("| b | 1,234 | dupes, yadf, rdfind, fclones-cache | jdupes |", made["agreement"])

    def test_ours_without_a_figure_says_so(self):
        made = self.made(failures={("c", peers.OURS): "exit code 101"})
        self.assertIn("| failed | 4.00 (`yadf`) |  |", made["headline"])
        self.assertIn("| c | | | | | **failed** |", made["bars"])

    def test_a_trial_says_so(self):
        for name in ("headline", "run"):
            self.assertNotIn("trial", self.made()[name])
            self.assertIn("trial", self.made(quick=True)[name])
        self.assertIn("(no cold cache: tree a, b; ", self.made(workloads=tuple(TREES))["run"])

    def test_the_run_names_all_that_took_part(self):
        made = self.made()["run"]
        self.assertIn("| peers | yadf 1.3.0, jdupes 1.21.3, rdfind 1.5.0 |", made)
        self.assertIn("| dupes | 0.1.0, commit `abcdef` |", made)
        self.assertIn("50 minutes in all, seed 7", made)

    def test_a_tree_has_its_cold_seconds_beside_the_warm_figures(self):
        made = self.made()
        self.assertIn("| | seconds | peak MB | switches | cold seconds |", made["tree-a"])
        self.assertIn("| **dupes** | 1.00 | 100 | 12345 | 1.00 |", made["tree-a"])
        self.assertIn("| | seconds | peak MB | switches |\n", made["tree-c"])
        self.assertIn("| | seconds | peak MB | switches |\n", made["rescan-a"])
        self.assertIn("| *walk-and-stat* | 0.50 |", made["rescan-a"])
        for block in ("tree-a", "rescan-a"):
            self.assertEqual(self.made(workloads=("c",))[block], "Not measured in this run.")

    def test_bars_have_units_and_say_what_is_short(self):
        made = self.made(seconds=3.0)
        self.assertIn("| a | 3.00 s | 4.00 s `yadf` | 0.75 | ≤ 0.5 | **short** |", made["bars"])
        self.assertIn("| e-peak_mb-limit | 100 MB | 90 MB `jdupes` |  | ≤ 150 | ok |", made["bars"])
        self.assertIn("a ours 3.00 best yadf 4.00 ratio 0.75 bar 0.50 short", made["short"])

    def test_who_needs_less_is_listed_bar_or_no_bar(self):
        self.assertIn("- c peak_mb, `dupes` 100: `jdupes` 90", self.made()["ahead"])
        self.assertNotIn("seconds", self.made()["ahead"], "references are nobody's rivals")
        self.assertIn("- c seconds, `dupes` 6.00: `yadf` 4.00, `jdupes` 5.00", self.made(seconds=6.0)["ahead"])

    def test_memory_is_also_that_of_one_file(self):
        rows = self.made()["memory"].splitlines()
        self.assertEqual(rows[0], "| 200,000 files | peak MB | bytes per file |")
        self.assertEqual(rows[2:4], ["| **dupes** | 100 | 500 |", "| jdupes | 90 | 450 |"])

    def test_system_calls_have_ours_first(self):
        rows = self.made()["calls"].splitlines()[2:]
        self.assertTrue(rows[0].startswith("| **dupes** | 4.00 | a 0.50, "), rows[0])
        self.assertEqual(rows[1], "| jdupes | 5.25 | read 3.00, openat 2.25 |")
        self.assertEqual(self.made(system_calls_per_file={})["calls"], "Not counted in this run.")

    def test_sources_that_were_invented_are_no_crates(self):
        self.assertIn("The sources of tree b are 12 crates.", self.made()["trees"])
        invented = results_file()
        invented["trees"]["b"]["bases"] = 0
        self.assertIn("tree b are invented.", blocks.blocks(records.condense(invented))["trees"])


class TheDocument(unittest.TestCase):
    """Its text, with the figures of an invented run."""

    def read(self, path):
        return (ROOT / path).read_text()

    def test_it_asks_for_nothing_that_is_not_made_and_shows_each_tree(self):
        files = DUPES.made_from(record(), self.read)
        charts = [path for path in files if path.endswith(".svg")]
        shown = sorted(workload for workload in WORKLOADS if kinds.has_peers(workload))
        self.assertEqual(charts, [f"{DUPES.folder}/{workload}.svg" for workload in shown])
        self.assertIn("a-cold: small files, 30 % copies, cold cache", files[f"{DUPES.folder}/a-cold.svg"])
        self.assertIn("## a-cold: small files, 30 % copies, cold cache", files[f"{DUPES.folder}/tables.md"])
        for path in (DUPES.document, *DUPES.readmes):
            self.assertIn("| **1.00** | 4.00 (`yadf`) | 0.25 |", files[path])

    def test_a_short_bar_has_to_be_explained_in_it(self):
        document = f"# P\n\n{explanations.SECTION}\n\n### `a`\n\nprose\n"
        missing, outdated = explanations.compare(record(seconds=3.0), document)
        self.assertEqual((missing[0], outdated), ("b", []))
        self.assertEqual(explanations.compare(record(), document), ([], ["a"]))


if __name__ == "__main__":
    unittest.main()
