"""A test that hangs costs its own cell, not the rest of the matrix."""

import unittest

from .matrix import FAILED, HANGS, NOT_OFFERED, PASSED, clause, markdown, run_kind

TESTS = ["R1_a", "R1_b", "S1_c", "hazard_3_d"]


class Matrix(unittest.TestCase):
    def test_the_run_goes_on_behind_a_test_that_hangs(self):
        answers = {
            "R1_a": ["R1_a passed"],  # and then the process ended in R1_b
            "S1_c": ["S1_c skipped needs groups", "hazard_3_d failed two ran at once"],
        }
        begun = []

        def run_from(_program, _kind, test):
            begun.append(test)
            return answers[test]

        outcomes, reasons = run_kind("matrix", "rayon", TESTS, run_from)
        self.assertEqual(begun, ["R1_a", "S1_c"])
        expected = {"R1_a": PASSED, "R1_b": HANGS, "S1_c": NOT_OFFERED, "hazard_3_d": FAILED}
        self.assertEqual(outcomes, expected)
        self.assertEqual(reasons["hazard_3_d"], "two ran at once")

    def test_a_test_that_hangs_last_ends_the_run(self):
        outcomes, _ = run_kind("matrix", "rayon", ["R1_a"], lambda *_: [])
        self.assertEqual(outcomes, {"R1_a": HANGS})

    def test_rows_are_clauses_and_failures_are_named(self):
        outcomes = {"rayon": {"R1_a": PASSED, "R1_b": FAILED, "S1_c": NOT_OFFERED}}
        text = list(markdown(outcomes, {"rayon": {"R1_b": "lost one"}}))
        self.assertIn("| R1 | **1 of 2** |", text)
        self.assertIn("| S1 | - |", text)
        self.assertIn("- rayon R1_b failed: lost one", text)

    def test_clauses_come_from_names(self):
        self.assertEqual(clause("C_unit_x"), "contracts")
        self.assertEqual(clause("hazard_33_y"), "hazards")
        self.assertEqual(clause("G3_maps"), "G3")


if __name__ == "__main__":
    unittest.main()
