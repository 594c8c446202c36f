"""The same sets are equal in whatever order and by whatever names they come."""

import unittest

from .sets import first_difference, normalise, read_links


class Normalising(unittest.TestCase):
    def test_order_does_not_matter(self):
        one = normalise([[b"/t/b", b"/t/a"], [b"/t/c", b"/t/d"]], b"/t")
        self.assertEqual(one, normalise([[b"/t/d", b"/t/c"], [b"/t/a", b"/t/b"]], b"/t/"))
        self.assertEqual(one, {b"a": (b"a", b"b"), b"c": (b"c", b"d")})

    def test_hard_links_are_one_file(self):
        links = {b"x/a": b"a", b"y/a": b"a"}
        self.assertEqual(normalise([[b"y/a", b"b", b"x/a"]], links=links), {b"a": (b"a", b"b")})
        self.assertEqual(normalise([[b"y/a", b"x/a", b"a"]], links=links), {})

    def test_a_single_file_is_no_set(self):
        self.assertEqual(normalise([[b"a"], [b"b", b"b"]]), {})

    def test_a_file_in_two_sets_is_noticed(self):
        expected = normalise([[b"a", b"b"]])
        self.assertIsNotNone(first_difference(expected, normalise([[b"a", b"b"], [b"b", b"a"]])))
        self.assertIsNotNone(first_difference(expected, normalise([[b"a", b"b"], [b"b", b"c"]])))

    def test_links_are_pairs(self):
        self.assertEqual(read_links(b""), {})
        self.assertEqual(read_links(b"x\0a\0y\0b\0"), {b"x": b"a", b"y": b"b"})


class Differences(unittest.TestCase):
    expected = normalise([[b"a", b"b"], [b"c", b"d", b"e", b"f", b"g"]])

    def test_none(self):
        self.assertIsNone(first_difference(self.expected, dict(reversed(self.expected.items()))))

    def test_a_missing_set(self):
        said = first_difference(self.expected, normalise([[b"a", b"b"]]))
        self.assertEqual(said, "no set instead of [c d e and 2 more], 1 sets differ")

    def test_a_set_too_many(self):
        said = first_difference(normalise([]), self.expected)
        self.assertEqual(said, "[a b] instead of no set, 2 sets differ")

    def test_the_first_by_path_is_named(self):
        said = first_difference(self.expected, normalise([[b"a", b"\x80"], [b"c", b"d"]]))
        self.assertTrue(said.startswith("[a \\x80] instead of [a b]"), said)


if __name__ == "__main__":
    unittest.main()
