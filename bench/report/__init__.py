"""What `bench/compare` is made of: one file per step."""
