"""Property test: whatever names and contents say, pages show it as text and nothing else."""

from html.parser import HTMLParser

import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from permutogeo.viz import experiment_page, mesh_report

EVIL = (
    "</title><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</script><!--",
    "</style><link rel=stylesheet href=//evil>",
    '" onload="alert(1)',
    "' autofocus onfocus='alert(1)",
    "${script} $title {{x}}",
    "&lt;b&gt; &amp;",
    "javascript:alert(1)",
    "\u202etxt.ply \u2028 \u2029",
)
texts = st.one_of(
    st.sampled_from(EVIL),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.lists(st.sampled_from(["<", ">", "&", '"', "'", "/", "script", "$", "-->", "\0", "a"])).map(
        "".join
    ),
)
TRIANGLE = Data(pos=torch.eye(3), face=torch.tensor([[0], [1], [2]]))


class Elements(HTMLParser):
    """Tags with the names of their attributes, in order."""

    def __init__(self, path):
        super().__init__()
        self.found = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, tuple(name for name, _ in attrs)))


def write_both(folder, name, value):
    """A report and an experiment page with the texts everywhere that a caller can put any."""
    meshes = {name: TRIANGLE, f"{name} ": TRIANGLE}
    rows = {name: {value: value}}
    first = mesh_report(
        folder / "a.html", meshes, title=name, command=value, numbers=rows,
        settings={name: value}, error=name,
    )  # fmt: skip
    second = experiment_page(
        folder / "b.html", title=name, text=f"a {value}", command=f"a {value}",
        tables={name: rows}, settings={value: name},
    )  # fmt: skip
    return [Elements(path).found for path in (first, second)]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(texts, texts)
@example(EVIL[0], EVIL[1])
@example("--quick", "a")
def test_texts_add_no_element_and_no_attribute(tmp_path, name, value):
    expected = write_both(tmp_path, "plain", "text")
    found = write_both(tmp_path, name, f"text {value}".replace("--quick", ""))
    assert found == expected
