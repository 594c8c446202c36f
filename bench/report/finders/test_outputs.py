"""What a finder prints, read as sets."""

import unittest

from . import outputs


class Outputs(unittest.TestCase):
    def test_fdupes_lines(self):
        self.assertEqual(outputs.blocks(b"/t/a\n/t/b b\n\n/t/c\n/t/d\n\n"), [[b"/t/a", b"/t/b b"], [b"/t/c", b"/t/d"]])

    def test_a_listing_may_end_without_an_empty_line(self):
        # yadf prints one between sets only.
        self.assertEqual(outputs.blocks(b"a\nb\n\nc\nd\n"), [[b"a", b"b"], [b"c", b"d"]])

    def test_nothing_is_no_set(self):
        for parse, nothing in [
            (outputs.blocks, b""),
            (outputs.blocks, b"\n"),
            (outputs.nul_blocks, b""),
            (outputs.rdfind, b"# Automatically generated\n# end of file\n"),
            (outputs.rmlint, b'[{"description": "x"}, {"aborted": false}]'),
            (outputs.czkawka, b"{}"),
            (outputs.czkawka, b""),
            (outputs.dupes_json, b'{"groups": [], "totals": {}}'),
        ]:
            self.assertEqual(parse(nothing), [], parse.__name__)

    def test_a_newline_survives_zero_bytes(self):
        self.assertEqual(outputs.nul_blocks(b"a\nx\0b\0\0c\0d\0\0"), [[b"a\nx", b"b"], [b"c", b"d"]])

    def test_ours_has_strings_and_bytes(self):
        data = b"""{"groups": [
            {"size": 3, "hash": null, "verified": "bytes", "paths": ["/t/\\u00e4", {"bytes": "L3QvgA=="}]}
        ], "totals": {"files": 9}}"""
        self.assertEqual(outputs.dupes_json(data), [["/t/ä".encode(), b"/t/\x80"]])

    def test_our_text_has_names_behind_four_columns(self):
        data = (
            b"2 bytes, 2 files, verified by blake3, hash 00, 4.0 KiB reclaimable\n"
            b"    /t/a\\nb\n  = /t/link\n    /t/\\xff\\\\x\n\n"
            b"1 bytes, 2 files, verified by bytes, 0 bytes reclaimable\n    /t/c\n    /t/d\n\n"
            b"= another name of the file above it\n2 sets, 2 redundant files\n"
        )
        self.assertEqual(outputs.dupes_text(data), [[b"/t/a\nb", b"/t/\xff\\x"], [b"/t/c", b"/t/d"]])

    def test_rdfind_begins_a_set_with_its_first_occurrence(self):
        data = (
            b"# duptype id depth size device inode priority name\n"
            b"DUPTYPE_FIRST_OCCURRENCE 7 2 10 65024 1 5 /t/a b\n"
            b"DUPTYPE_WITHIN_SAME_TREE -7 2 10 65024 2 5 /t/c\n"
            b"DUPTYPE_FIRST_OCCURRENCE 4 2 10 65024 3 5 /t/d\n"
            b"DUPTYPE_OUTSIDE_TREE -4 2 10 65024 4 5 /t/e\n"
            b"# end of file\n"
        )
        self.assertEqual(outputs.rdfind(data), [[b"/t/a b", b"/t/c"], [b"/t/d", b"/t/e"]])

    def test_rmlint_begins_a_set_with_an_original(self):
        data = b"""[{"description": "rmlint json-dump of lint files"},
            {"type": "duplicate_file", "path": "/t/a", "is_original": true},
            {"type": "duplicate_file", "path": "/t/b", "is_original": false},
            {"type": "emptyfile", "path": "/t/x", "is_original": false},
            {"type": "duplicate_file", "path": "/t/c", "is_original": true},
            {"type": "duplicate_file", "path": "/t/d", "is_original": false},
            {"aborted": false, "duplicate_sets": 2}]"""
        self.assertEqual(outputs.rmlint(data), [[b"/t/a", b"/t/b"], [b"/t/c", b"/t/d"]])

    def test_czkawka_has_sets_below_sizes(self):
        data = b"""{"3": [[{"path": "/t/a", "size": 3}, {"path": "/t/b", "size": 3}],
                          [{"path": "/t/c", "size": 3}, {"path": "/t/d", "size": 3}]]}"""
        self.assertEqual(outputs.czkawka(data), [[b"/t/a", b"/t/b"], [b"/t/c", b"/t/d"]])


if __name__ == "__main__":
    unittest.main()
