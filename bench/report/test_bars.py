"""A run is judged by its medians, and only against those who count."""

import unittest

from .bars import ABSOLUTE, DIFFERENCE, FLAT, BARS, Bar, from_a_plain_thread, judge, slow_modes

ROLES = {"tidegate": "ours", "kanal": "peer", "tokio_spawn_inside": "peer", "no_alloc": "reference"}


def samples(workload, figure="ns", **medians):
    return {(workload, contender): {figure: values} for contender, values in medians.items()}


class Judging(unittest.TestCase):
    def test_the_line_has_the_promised_form(self):
        run = samples("W1-2w1p", tidegate=[29.0], kanal=[98.0])
        line = judge(Bar("W1-2w1p", "ns", 0.40), ROLES, run)["line"]
        self.assertEqual(line, "W1-2w1p ours 29 best kanal 98 ratio 0.30 bar 0.40 ok")

    def test_above_the_bar_is_short(self):
        run = samples("W1-2w1p", tidegate=[41.0], kanal=[100.0])
        verdict = judge(Bar("W1-2w1p", "ns", 0.40), ROLES, run)
        self.assertFalse(verdict["met"])
        self.assertTrue(verdict["line"].endswith("bar 0.40 short"))

    def test_medians_count_and_not_the_best_round(self):
        run = samples("W2", tidegate=[1.0, 90.0, 95.0], kanal=[100.0, 100.0, 1.0])
        self.assertAlmostEqual(judge(Bar("W2", "ns", 0.60), ROLES, run)["ratio"], 0.9)

    def test_references_are_no_peers(self):
        run = samples("W2", tidegate=[50.0], kanal=[100.0], no_alloc=[10.0])
        self.assertEqual(judge(Bar("W2", "ns", 0.60), ROLES, run)["best_peer"], "kanal")

    def test_w4_leaves_out_who_is_fed_inside(self):
        run = samples("W4-back", "median", tidegate=[50.0], kanal=[100.0], tokio_spawn_inside=[10.0])
        bar = Bar("W4-back", "median", 0.8, peers=from_a_plain_thread)
        self.assertEqual(judge(bar, ROLES, run)["best_peer"], "kanal")

    def test_nothing_to_compare_with_is_neither_ok_nor_short(self):
        verdict = judge(Bar("W2", "ns", 0.60), ROLES, samples("W2", tidegate=[50.0]))
        self.assertNotIn("met", verdict)
        self.assertEqual(verdict["line"], "W2 ours 50 not compared")

    def test_an_absolute_bar_looks_at_ours_alone(self):
        run = samples("S", "ms", tidegate=[0.7], kanal=[0.1])
        self.assertTrue(judge(Bar("S", "ms", 1.0, kind=ABSOLUTE), ROLES, run)["met"])
        run = samples("A", "spawn", tidegate=[0.5], kanal=[1.0])
        self.assertFalse(judge(Bar("A", "spawn", 0, kind=ABSOLUTE), ROLES, run)["met"])

    def test_a_difference_may_be_negative(self):
        run = samples("W6", "loss", tidegate=[-1.0], kanal=[-2.5])
        verdict = judge(Bar("W6", "loss", 2.0, kind=DIFFERENCE), ROLES, run)
        self.assertAlmostEqual(verdict["difference"], 1.5)
        self.assertTrue(verdict["met"])

    def test_who_fails_has_not_met_its_bar(self):
        verdict = judge(Bar("C", "lost", 0, kind=ABSOLUTE), ROLES, {}, {("C", "tidegate"): "a task was lost"})
        self.assertEqual(verdict["line"], "C-lost ours failed bar 0.00 short")

    def test_flatness_says_of_how_many_runs(self):
        run = {("F", "tidegate"): {"ns_10k": [60.0], "ns_1m": [50.0], "runs": [31.0, 30.0]}}
        self.assertIn("ratio 1.20 runs 30 bar", judge(Bar("F", "*", 1.5, kind=FLAT), ROLES, run)["line"])

    def test_flatness_is_the_largest_size_by_the_smallest(self):
        run = {("F", "tidegate"): {"ns_10k": [60.0], "ns_1m": [30.0], "cpu_ms": [900.0]}}
        verdict = judge(Bar("F", "*", 1.5, kind=FLAT), ROLES, run)
        self.assertEqual(verdict["line"], "F ours ns_10k 60 best ns_1m 30 ratio 2.00 bar 1.50 short")

    def test_no_two_bars_have_one_name(self):
        names = [bar.name for bar in BARS]
        self.assertEqual(len(names), len(set(names)))


class SlowModes(unittest.TestCase):
    def test_one_round_far_above_the_median_is_short(self):
        run = samples("W2", tidegate=[10.0, 10.0, 10.0, 31.0], kanal=[1.0, 99.0])
        (verdict,) = slow_modes(["W2"], ROLES, run)
        self.assertFalse(verdict["met"])
        self.assertIn("slowest of 4 rounds / median 31 / 10", verdict["line"])

    def test_two_rounds_say_nothing(self):
        self.assertEqual(list(slow_modes(["W2"], ROLES, samples("W2", tidegate=[1.0, 90.0]))), [])

    def test_steady_rounds_are_ok(self):
        (verdict,) = slow_modes(["W2"], ROLES, samples("W2", tidegate=[10.0, 12.0, 29.0]))
        self.assertTrue(verdict["met"])


if __name__ == "__main__":
    unittest.main()
