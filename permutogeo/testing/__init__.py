"""The oracle that the tests compare against. It imports nothing of permutogeo, on purpose."""
