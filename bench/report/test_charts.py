"""Charts are well-formed, show everybody, and never leave their frame."""

import unittest
import xml.etree.ElementTree as ElementTree

from .charts import LEFT, PLOT, chart, charts

SVG = "{http://www.w3.org/2000/svg}"
ROLES = {"tidegate": "ours", "kanal": "peer", "book": "peer", "no_alloc": "reference"}


def drawn(bars):
    return ElementTree.fromstring(chart("W2", "ns", bars, ROLES))


class Charts(unittest.TestCase):
    def test_the_smallest_median_comes_first(self):
        svg = drawn({"kanal": [90.0, 100.0, 5000.0], "tidegate": [50.0], "book": [200.0]})
        names = [t.text for t in svg.iter(f"{SVG}text") if t.get("text-anchor") == "end"]
        self.assertEqual(names, ["tidegate", "kanal", "book"])

    def test_ours_is_marked(self):
        svg = drawn({"kanal": [90.0], "tidegate": [50.0], "no_alloc": [40.0]})
        classes = [rect.get("class") for rect in svg.iter(f"{SVG}rect")]
        self.assertEqual(classes, ["reference", "ours", "peer"])

    def test_bars_are_as_long_as_their_medians(self):
        svg = drawn({"kanal": [100.0], "tidegate": [50.0]})
        widths = [float(rect.get("width")) for rect in svg.iter(f"{SVG}rect")]
        self.assertEqual(widths, [PLOT / 2, PLOT])

    def test_wide_gaps_are_drawn_logarithmic_and_say_so(self):
        svg = drawn({"kanal": [100_000.0], "tidegate": [50.0]})
        widths = [float(rect.get("width")) for rect in svg.iter(f"{SVG}rect")]
        self.assertGreater(widths[0], PLOT / 20)
        self.assertIn("logarithmic", "".join(svg.itertext()))

    def test_losses_below_zero_stay_in_the_frame(self):
        svg = drawn({"kanal": [-3.0, 12.0], "tidegate": [-1.0]})
        for rect in svg.iter(f"{SVG}rect"):
            self.assertGreaterEqual(float(rect.get("width")), 0)
        starts = [path.get("d").split()[0] for path in svg.iter(f"{SVG}path")]
        self.assertTrue(all(float(start[1:]) >= LEFT for start in starts))

    def test_all_zero_is_no_division_by_zero(self):
        drawn({"kanal": [0.0], "tidegate": [0.0]})

    def test_a_workload_without_figures_has_no_chart(self):
        samples = {("W2", "kanal"): {"ns": [1.0]}}
        self.assertEqual([name for name, _ in charts(["W1", "W2"], ROLES, samples)], ["W2.svg"])


if __name__ == "__main__":
    unittest.main()
