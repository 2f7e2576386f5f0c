"""Reference implementation that the tests compare against; imports nothing else of permutogeo."""
