import json

from permutogeo.denoising import DenoiseReport


def test_a_line_says_what_was_found_and_done():
    report = DenoiseReport("learned", 0.2, 0.1, 0.5, 3, 1, ("slivers",))
    assert str(report) == (
        "noise 0.2 edges, moved 0.1 (at most 0.5), 1 of 3 parts left alone (slivers)"
    )
    assert str(DenoiseReport("smooth", None, 0.1, 0.5)) == "moved 0.1 (at most 0.5)"
    assert str(DenoiseReport("smooth", None, 0.0, 0.0)) == "nothing moved"


def test_the_table_is_json():
    report = DenoiseReport("learned", 0.2, 0.1, 0.5)
    assert json.loads(json.dumps(report.as_dict()))["noise"] == 0.2
