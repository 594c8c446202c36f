"""The parts of `bench/dupes`: duplicate finders, what they print, and how it is judged."""
