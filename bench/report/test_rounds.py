"""Who fails, who declines and who is slow are three different things."""

import os
import stat
import tempfile
import types
import unittest
from pathlib import Path

from . import rounds
from .tables import table

PROGRAM = """#!/bin/sh
case "$2" in
  kanal) echo "ns 12.5"; echo "rss_kb 4000";;
  book) exit 3;;
  flume) exec sleep 5;;
  rayon) echo "a task was lost" >&2; exit 101;;
  tidegate) echo "ns 5";;
esac
"""
CONTENDERS = ["tidegate", "kanal", "book", "flume", "rayon"]


class Rounds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = Path(folder.name) / "program"
        program.write_text(PROGRAM)
        os.chmod(program, stat.S_IRWXU)
        self.programs = dict.fromkeys(CONTENDERS, program)
        waits = rounds.QUICK_WAITS_UP_TO_SECONDS
        self.addCleanup(setattr, rounds, "QUICK_WAITS_UP_TO_SECONDS", waits)
        rounds.QUICK_WAITS_UP_TO_SECONDS = 0.5

    def run_two(self, budget=60):
        options = types.SimpleNamespace(quick=True, rounds=2, seed=1, budget=budget)
        # The rounds say where they are on stderr.
        return rounds.run_rounds(self.programs, ["W2"], CONTENDERS, options)

    def test_figures_failures_and_declines(self):
        results = self.run_two()
        self.assertEqual(results.samples["W2", "kanal"]["ns"], [12.5, 12.5])
        self.assertEqual(results.declined, {("W2", "book")})
        self.assertEqual(results.too_slow, {("W2", "flume")})
        self.assertEqual(list(results.failures), [("W2", "rayon")])
        self.assertIn("a task was lost", results.failures["W2", "rayon"])

    def test_the_table_has_them_all(self):
        text = "\n".join(table("W2", CONTENDERS, self.run_two()))
        self.assertRegex(text, r"(?s)tidegate +5\.00.*kanal +12")
        self.assertIn("-  book", text)
        self.assertIn("too slow for quick mode:  flume", text)
        self.assertIn("rayon FAILED: exit code 101", text)

    def test_every_whole_round_can_be_saved(self):
        saved = []
        options = types.SimpleNamespace(quick=True, rounds=2, seed=1, budget=60)

        def save(results):
            saved.append((results.rounds, len(results.samples["W2", "kanal"]["ns"])))

        rounds.run_rounds(self.programs, ["W2"], ["kanal"], options, save)
        self.assertEqual(saved, [(1, 1), (2, 2)])

    def test_without_time_left_the_first_round_is_still_whole(self):
        results = self.run_two(budget=0)
        self.assertEqual(results.rounds, 1)
        self.assertEqual(results.samples["W2", "kanal"]["ns"], [12.5])

    def test_slow_peers_have_fewer_rounds_and_ours_never(self):
        def full(workload, contender, seconds):
            options = types.SimpleNamespace(quick=False, rounds=15)
            return rounds.rounds_of(workload, contender, options, seconds)

        self.assertEqual(full("W2", "flume", 0.1), 15)
        self.assertEqual(full("W2", "flume", 9.0), rounds.FULL_ROUNDS_OF_SLOW)
        self.assertEqual(full("W2", "tidegate_async", 9.0), 15)
        self.assertEqual(full("F", "kanal", 0.1), 1)
        self.assertEqual(full("F", "tidegate", 12.0), rounds.FULL_ROUNDS_OF["F"])


if __name__ == "__main__":
    unittest.main()
