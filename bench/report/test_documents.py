"""Figures in documents come from one run, and from nowhere else."""

import json
import tempfile
import unittest
from pathlib import Path

from . import blocks, documents, explanations, machine, markers, record as records

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
        self.assertFalse(records.is_trial(record()))
        for change in ({"rounds": 14}, {"quick": True}, {"only": "W2"}):
            self.assertTrue(records.is_trial(record(**change)), change)

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
        documents.DOCUMENT: "<!-- figures:headline -->\n<!-- /figures -->\n![W2](performance/W2.svg)\n",
        **{path: "<!-- figures:headline -->\n<!-- /figures -->\n" for path in documents.READMES},
    }

    def test_writing_leaves_nothing_to_write(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for path, text in self.TEXTS.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            documents.write(root, documents.made_from(record(), lambda path: (root / path).read_text()))
            (root / documents.FOLDER / "W9.svg").write_text("of an earlier run")
            again = documents.made_from(record(), lambda path: (root / path).read_text())
            self.assertEqual(documents.differing(root, again), [f"{documents.FOLDER}/W9.svg"])
            documents.write(root, again)
            self.assertEqual(documents.differing(root, again), [])

    def test_the_matrix_has_a_page_and_its_sums_a_block(self):
        outcomes = {"tidegate": {"R1_a": "passed", "R1_b": "passed"}, "rayon": {"R1_a": "failed", "R1_b": "hangs"}}
        reasons = {"tidegate": {}, "rayon": {"R1_a": "lost one", "R1_b": "no end"}}
        run = record(matrix={"outcomes": outcomes, "reasons": reasons})
        page = documents.made_from(run, self.TEXTS.get)[f"{documents.FOLDER}/matrix.md"]
        self.assertIn("| R1 | 2 of 2 | **0 of 2** |", page)
        self.assertIn("- rayon R1_a failed: lost one", page)
        self.assertIn("| rayon | 0 | 1 | 1 | 0 |", blocks.blocks(run)["matrix"])

    def test_the_document_decides_which_charts_there_are(self):
        files = documents.made_from(record(), self.TEXTS.get)
        self.assertEqual([path for path in files if path.endswith(".svg")], [f"{documents.FOLDER}/W2.svg"])


class ThisRepository(unittest.TestCase):
    """What `bench/document --check` says of the documents as they are."""

    def setUp(self):
        self.record = json.loads((ROOT / documents.RECORD).read_text())

    def read(self, path):
        return (ROOT / path).read_text()

    def test_every_figure_is_that_of_the_recorded_run(self):
        files = documents.made_from(self.record, self.read)
        stale = documents.differing(ROOT, files)
        self.assertEqual(stale, [], "typed by hand, or made by an older script: run bench/document")

    def test_the_readmes_show_what_the_document_shows(self):
        shown = markers.blocks_in(self.read(documents.DOCUMENT))
        for path in documents.READMES:
            for name, text in markers.blocks_in(self.read(path)).items():
                self.assertEqual(text, shown[name], f"{path}: {name}")

    def test_every_shortfall_is_explained(self):
        missing, _ = explanations.compare(self.record, self.read(documents.DOCUMENT))
        if not records.is_trial(self.record):
            self.assertEqual(missing, [], "docs/performance.md does not explain them")


if __name__ == "__main__":
    unittest.main()
