"""Figures in documents come from one run, and from nowhere else."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from . import blocks, explanations, machine, markers, publications, record as records
from .finders.test_blocks import results_file as dupes_results_file
from .publications import COMPARE, DUPES

ROOT = Path(__file__).resolve().parents[2]
ROLES = {"tidegate": "ours", "kanal": "peer", "tokio_spawn": "peer", "tokio_spawn_inside": "peer", "no_alloc": "reference"}


def summary(*samples):
    ordered = sorted(samples)
    return {"median": ordered[len(ordered) // 2], "min": ordered[0], "max": ordered[-1], "samples": list(samples)}


def bar(name, met, **more):
    ratio = 0.3 if met else 0.9
    facts = {"workload": name, "figure": "ns", "limit": 0.6, "ours": "tidegate", "name": name, "kind": "ratio"}
    facts |= {"line": f"{name} {'ok' if met else 'short'}", "met": met, "ratio": ratio}
    return facts | {"value": 30.0, "best_peer": "kanal", "best_value": 100.0} | more


def results_file(**changes):
    document = {
        "time": "2026-01-02T03:04:05Z",
        "commit": "abcdef",
        "machine": {"cpu": "Abacus 9", "cores": 2, "virtual": True, "system": "Linux 6.1", "libc": "glibc 2.36"},
        "versions": {"kanal": "0.1.1", "tidegate": "0.1.0", "rustc": "1.95.0"},
        "rounds": 15,
        "quick": False,
        "only": None,
        "seconds": 3001.7,
        "seed": 7,
        "contenders": ROLES,
        "results": {
            "W2": {
                "tidegate": {"ns": summary(29.0, 30.0, 31.123456)},
                "kanal": {"ns": summary(100.0), "rss_kb": summary(9.0)},
                "tokio_spawn_inside": {"ns": summary(20.0)},
                "no_alloc": {"ns": summary(10.0)},
            },
            "A": {"tidegate": {"handle": summary(0.00001)}, "tokio_spawn": {"handle": summary(1.0)}},
        },
        "declined": [],
        "too_slow": [],
        "bars": [bar("W2", True)],
        "slow_modes": [],
        "failures": {},
        "matrix": None,
    }
    return document | changes


def record(**changes):
    return records.condense(results_file(**changes))


class Markers(unittest.TestCase):
    TEXT = "before\n<!-- figures:a -->\nold\n<!-- /figures -->\nafter 12 ns\n"

    def test_only_what_stands_between_is_replaced(self):
        filled = markers.fill(self.TEXT, {"a": "new\nlines", "b": "unused"})
        self.assertEqual(filled, "before\n<!-- figures:a -->\nnew\nlines\n<!-- /figures -->\nafter 12 ns\n")
        self.assertEqual(markers.fill(filled, {"a": "old"}), self.TEXT)

    def test_a_block_that_nobody_makes_is_an_error(self):
        with self.assertRaisesRegex(markers.BadMarkers, "no figures a"):
            markers.fill(self.TEXT, {"b": ""})

    def test_a_block_without_an_end_is_an_error(self):
        for text in ("<!-- figures:a -->\n", self.TEXT + "<!-- /figures -->", "<!-- figures:a -->\n" + self.TEXT):
            with self.assertRaises(markers.BadMarkers):
                markers.blocks_in(text)


class Records(unittest.TestCase):
    def test_a_figure_is_kept_with_its_spread_and_number_of_runs(self):
        self.assertEqual(record()["results"]["W2"]["tidegate"]["ns"], [30.0, 29.0, 31.123, 3])

    def test_what_is_written_can_be_read(self):
        self.assertEqual(json.loads(records.text(record())), record())

    def test_few_rounds_or_few_workloads_are_a_trial(self):
        self.assertEqual(records.why_trial(record()), [])
        for change, reason in (
            ({"rounds": 14}, "14 rounds instead of 15"),
            ({"quick": True}, "--quick"),
            ({"only": "W2"}, "--only W2"),
        ):
            self.assertEqual(records.why_trial(record(**change)), [reason])

    def test_no_path_of_the_machine_is_kept(self):
        outcomes = {"rayon": {"R1_a": "failed", "R2_b": "not offered"}}
        why = {"rayon": {"R1_a": "panicked at /opt/me/x/src/pool.rs:3: 1/2 of a", "R2_b": "no handles"}}
        kept = record(matrix={"outcomes": outcomes, "reasons": why})["matrix"]["reasons"]
        self.assertEqual(kept, {"rayon": {"R1_a": "panicked at pool.rs:3: 1/2 of a"}})

    def test_a_kernel_is_named_without_its_suffix(self):
        self.assertEqual(machine.plain_version("6.1.0-17-cloud-of-somebody"), "6.1.0")
        self.assertEqual(machine.cpu_model("model name\t: Some(R) CPU(TM) 3\n"), "Some CPU 3")


class Blocks(unittest.TestCase):
    def made(self, **changes):
        return blocks.blocks(record(**changes))

    def test_the_headline_says_who_the_best_of_all_peers_is_and_what_both_allocate(self):
        line = "| **30**, 0 allocations | 20 (`tokio_spawn_inside`), 1 allocation |"
        self.assertIn(line, self.made()["headline"])
        self.assertIn("2 cores (Abacus 9, virtual); medians of 15 interleaved rounds", self.made()["headline"])

    def test_an_item_is_no_task_and_has_no_allocations_of_its_own(self):
        results = {"W5": {"tidegate": {"ns": summary(7.0)}, "kanal": {"ns": summary(4.0)}}}
        self.assertIn("| an item of a slice | **7.00** | 4.00 (`kanal`) |", self.made(results=results)["headline"])

    def test_a_bar_that_could_not_be_measured_for_a_failure_says_so(self):
        failed = {"workload": "W2", "figure": "ns", "name": "W2", "met": False, "line": "W2 ours failed short"}
        self.assertIn("| W2 | | | | | **failed** |", self.made(bars=[failed])["bars"])

    def test_a_trial_says_so(self):
        for name in ("headline", "run"):
            self.assertNotIn("trial", self.made()[name])
            self.assertIn("trial", self.made(quick=True)[name])

    def test_a_table_has_ours_first_and_marks_the_best_peer(self):
        rows = [line.split(" |")[0] for line in self.made()["tasks"].splitlines()[2:]]
        self.assertEqual(rows, ["| **tidegate**", "| tokio_spawn_inside", "| kanal", "| *no_alloc*"])
        self.assertIn("| tokio_spawn_inside | **20** |", self.made()["tasks"])

    def test_who_is_ahead_is_listed_without_references(self):
        self.assertEqual(self.made()["ahead"], "- W2 ns, `tidegate` 30: `tokio_spawn_inside` 20")

    def test_futures_are_held_against_those_fed_from_the_same_side(self):
        times = {"tidegate_async_inside": 25.0, "kanal": 9.0, "tokio_sem": 8.0, "tokio_sem_inside": 7.0}
        roles = {name: "ours" if name.startswith("tidegate") else "peer" for name in times}
        results = {"W2": {name: {"ns": summary(time)} for name, time in times.items()}}
        ahead = self.made(contenders=roles, results=results)["ahead"]
        self.assertEqual(ahead, "- W2 ns, `tidegate_async_inside` 25: `tokio_sem_inside` 7.00")

    def test_prices_stand_beside_what_the_machine_takes(self):
        results = {
            "W2": {"tidegate": {"ns": summary(30.0)}},
            "W4-back": {"tidegate": {"median": summary(900.0)}},
            "raw": {"machine": {"cache_line_there_and_back": summary(100.0)}},
        }
        rows = self.made(results=results)["yardsticks"].splitlines()[2:]
        self.assertEqual(
            rows,
            [
                "| W2 | 30 ns | a line goes there and comes back | 100 ns | 0.30 |",
                "| W4-back | 0.90 µs | a line goes there and comes back | 0.10 µs | 9.00 |",
            ],
        )

    def test_bars_are_counted(self):
        made = self.made(bars=[bar("W2", True), bar("W5", False)])
        self.assertIn("1 of 2 bars are met", made["verdict"])
        self.assertIn("| 0.90 | ≤ 0.6 | **short** |", made["bars"])
        self.assertIn("W5 short", made["short"])


class Explanations(unittest.TestCase):
    TEXT = "# P\n\n## Where we lose, and why\n\nx\n\n### `W5-one`, `W2`\n\nprose\n\n## Next\n\n### `F`\n"

    def test_names_come_from_the_headings_of_one_section(self):
        self.assertEqual(explanations.explained_names(self.TEXT), ["W5-one", "W2"])

    def test_what_is_missing_and_what_is_outdated(self):
        slow = {"workload": "W6", "contender": "tidegate", "ratio": 4.0, "met": False, "line": ""}
        run = record(bars=[bar("W2", False), bar("W5-one", True), bar("S", False)], slow_modes=[slow])
        self.assertEqual(explanations.compare(run, self.TEXT), (["S", "W6 tidegate slowest"], ["W5-one"]))


class Documents(unittest.TestCase):
    TEXTS = {
        COMPARE.document: "<!-- figures:headline -->\n<!-- /figures -->\n![W2](performance/W2.svg)\n",
        **{path: "<!-- figures:headline -->\n<!-- /figures -->\n" for path in COMPARE.readmes},
    }

    def test_writing_leaves_nothing_to_write(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for path, text in self.TEXTS.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            COMPARE.write(root, COMPARE.made_from(record(), lambda path: (root / path).read_text()))
            (root / COMPARE.folder / "W9.svg").write_text("of an earlier run")
            again = COMPARE.made_from(record(), lambda path: (root / path).read_text())
            self.assertEqual(COMPARE.differing(root, again), [f"{COMPARE.folder}/W9.svg"])
            COMPARE.write(root, again)
            self.assertEqual(COMPARE.differing(root, again), [])
            self.assertEqual(COMPARE.recorded(root), record())
            self.assertIsNone(DUPES.recorded(root))

    def test_the_matrix_has_a_page_and_its_sums_a_block(self):
        outcomes = {"tidegate": {"R1_a": "passed", "R1_b": "passed"}, "rayon": {"R1_a": "failed", "R1_b": "hangs"}}
        reasons = {"tidegate": {}, "rayon": {"R1_a": "lost one", "R1_b": "no end"}}
        run = record(matrix={"outcomes": outcomes, "reasons": reasons})
        page = COMPARE.made_from(run, self.TEXTS.get)[f"{COMPARE.folder}/matrix.md"]
        self.assertIn("| R1 | 2 of 2 | **0 of 2** |", page)
        self.assertIn("- rayon R1_a failed: lost one", page)
        self.assertIn("| rayon | 0 | 1 | 1 | 0 |", blocks.blocks(run)["matrix"])

    def test_the_document_decides_which_charts_there_are(self):
        files = COMPARE.made_from(record(), self.TEXTS.get)
        self.assertEqual([path for path in files if path.endswith(".svg")], [f"{COMPARE.folder}/W2.svg"])


class Recognising(unittest.TestCase):
    def test_a_results_file_tells_whose_it_is(self):
        self.assertIs(publications.of(results_file()), COMPARE)
        self.assertIs(publications.of(dupes_results_file()), DUPES)
        for other in (None, [], {}, {"trees": {}}):
            self.assertIsNone(publications.of(other))

    def document(self, results, *options):
        """What `bench/document` says of these results; nothing is written."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "results.json"
            file.write_text(json.dumps(results))
            command = [sys.executable, ROOT / "bench" / "document", file, "--check"]
            command += [file if option == "FILE" else option for option in options]
            run = subprocess.run(command, capture_output=True, text=True)
        return run.returncode, run.stdout, run.stderr

    def test_a_trial_of_either_is_refused_with_the_reason(self):
        for results, reason in (
            (results_file(quick=True), "a trial of bench/compare (--quick)"),
            (dupes_results_file(rounds=4), "a trial of bench/dupes (4 warm rounds instead of 5; 4 scan rounds instead of 5)"),
        ):
            code, _, said = self.document(results)
            self.assertEqual(code, 1)
            self.assertIn(reason, said)

    def test_each_goes_to_its_own_document(self):
        for results, own, other in (
            (results_file(quick=True), COMPARE, DUPES),
            (dupes_results_file(rounds=4), DUPES, COMPARE),
        ):
            _, said, _ = self.document(results, "--trial")
            self.assertIn(f"differs: {own.document}\n", said)
            self.assertNotIn(f"{other.folder}/", said)

    def test_finders_have_no_matrix(self):
        code, _, said = self.document(dupes_results_file(), "--matrix-from", "FILE")
        self.assertEqual(code, 1)
        self.assertIn("--matrix-from is about two results files of bench/compare", said)


class ThisRepository(unittest.TestCase):
    """What `bench/document --check` says of the documents as they are."""

    def read(self, path):
        return (ROOT / path).read_text()

    def published(self):
        """(publication, record) of each benchmark that has been published."""
        for publication in publications.ALL:
            record = publication.recorded(ROOT)
            if record is not None:
                with self.subTest(publication.benchmark):
                    yield publication, record

    def test_every_figure_is_that_of_the_recorded_run(self):
        for publication, record in self.published():
            stale = publication.differing(ROOT, publication.made_from(record, self.read))
            self.assertEqual(stale, [], "typed by hand, or made by an older script: run bench/document")

    def test_before_the_first_run_there_are_no_figures(self):
        for publication in publications.ALL:
            if publication.recorded(ROOT) is None:
                for path in (publication.document, *publication.readmes):
                    for name, text in markers.blocks_in(self.read(path)).items():
                        self.assertEqual(text, "Not measured yet.\n", f"{path}: {name}")

    def test_the_readmes_show_what_the_document_shows(self):
        for publication in publications.ALL:
            shown = markers.blocks_in(self.read(publication.document))
            for path in publication.readmes:
                for name, text in markers.blocks_in(self.read(path)).items():
                    self.assertEqual(text, shown[name], f"{path}: {name}")

    def test_every_shortfall_is_explained(self):
        for publication, record in self.published():
            missing, _ = explanations.compare(record, self.read(publication.document))
            if not publication.why_trial(record):
                self.assertEqual(missing, [], f"{publication.document} does not explain them")


if __name__ == "__main__":
    unittest.main()
