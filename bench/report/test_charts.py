"""Charts are well-formed, show everybody, and never leave their frame."""

import unittest
import xml.etree.ElementTree as ElementTree

from .bars import FLAT, RATIO
from .charts import LEFT, PLOT, chart, charts, overview

SVG = "{http://www.w3.org/2000/svg}"
ROLES = {"tidegate": "ours", "kanal": "peer", "book": "peer", "no_alloc": "reference"}


def drawn(bars):
    return ElementTree.fromstring(chart("W2", "ns", bars, ROLES))


def rects(svg):
    """Those that show a figure: the first is the page."""
    return list(svg.iter(f"{SVG}rect"))[1:]


class Charts(unittest.TestCase):
    def test_the_smallest_median_comes_first(self):
        svg = drawn({"kanal": [90.0, 100.0, 5000.0], "tidegate": [50.0], "book": [200.0]})
        names = [t.text for t in svg.iter(f"{SVG}text") if t.get("text-anchor") == "end"]
        self.assertEqual(names, ["tidegate", "kanal", "book"])

    def test_ours_is_marked(self):
        svg = drawn({"kanal": [90.0], "tidegate": [50.0], "no_alloc": [40.0]})
        classes = [rect.get("class") for rect in rects(svg)]
        self.assertEqual(classes, ["reference", "ours", "peer"])

    def test_bars_are_as_long_as_their_medians(self):
        svg = drawn({"kanal": [100.0], "tidegate": [50.0]})
        widths = [float(rect.get("width")) for rect in rects(svg)]
        self.assertEqual(widths, [PLOT / 2, PLOT])

    def test_wide_gaps_are_drawn_logarithmic_and_say_so(self):
        svg = drawn({"kanal": [100_000.0], "tidegate": [50.0]})
        widths = [float(rect.get("width")) for rect in rects(svg)]
        self.assertGreater(widths[0], PLOT / 20)
        self.assertIn("logarithmic", "".join(svg.itertext()))

    def test_losses_below_zero_stay_in_the_frame(self):
        svg = drawn({"kanal": [-3.0, 12.0], "tidegate": [-1.0]})
        for rect in rects(svg):
            self.assertGreaterEqual(float(rect.get("width")), 0)
        starts = [path.get("d").split()[0] for path in svg.iter(f"{SVG}path")]
        self.assertTrue(all(float(start[1:]) >= LEFT for start in starts))

    def test_all_zero_is_no_division_by_zero(self):
        drawn({"kanal": [0.0], "tidegate": [0.0]})

    def test_who_is_alone_has_no_chart(self):
        samples = {("W2", c): {"ns": [1.0]} for c in ("kanal", "book")} | {("C", "tidegate"): {"ns": [1.0]}}
        self.assertEqual([name for name, _ in charts(["W1", "W2", "C"], ROLES, samples)], ["W2.svg"])

    def test_the_overview_has_a_row_for_each_ratio_and_marks_the_short(self):
        def verdict(name, ratio, kind=RATIO):
            return {"name": name, "kind": kind, "ratio": ratio, "limit": 0.4, "met": ratio <= 0.4}

        svg = ElementTree.fromstring(overview([verdict("W2", 0.1), verdict("W5", 2.0), verdict("F", 1.0, FLAT)]))
        classes = [rect.get("class") for rect in rects(svg)]
        self.assertEqual(classes, ["ours", "short"])


if __name__ == "__main__":
    unittest.main()
