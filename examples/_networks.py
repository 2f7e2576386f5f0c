"""What the examples of bilateral networks share: training, counting, tables, curves and records."""

import argparse
import json
import shlex
import sys
from datetime import datetime, timezone
from pathlib import Path

import torch
from torch_geometric.nn import Linear

from permutogeo.nn import BilateralConv, LatticeConv
from permutogeo.stencils import num_taps
from permutogeo.train import Confusion, Trainer, grid_search, write_csv
from permutogeo.viz import experiment_page


def arguments(text, **defaults):
    """A parser of what all of them can be told, and of numbers with their defaults."""
    parser = argparse.ArgumentParser(description=text.partition("\n")[0])
    folder = Path("runs") / Path(sys.argv[0]).stem
    parser.add_argument("--output", type=Path, default=folder, help="also where to continue from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few data, small networks, few steps")
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    return parser


def missing(dataset, **settings):
    """A dataset, or the end of the program with what it needs."""
    try:
        return dataset(**settings)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def count_parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def place(args, name, suffix=""):
    """Where the output of a contender goes."""
    return args.output / (name.lower().replace(" ", "_").replace("%", "") + suffix)


def keep_small(name, model, args):
    """Write a trained model for ``from_pretrained``, if it has that and is under a megabyte."""
    if hasattr(model, "save_pretrained") and count_parameters(model) < 250_000:
        model.save_pretrained(place(args, name, ".safetensors"))


def trainer_of(model, args, lr, epochs, classes, monitor, name=None, **settings):
    """The trainer of a contender by logistic loss; one with a name is kept, and continued."""
    return Trainer(
        model, "logistic", settings.pop("optimizer", "sgd"), lr=lr, epochs=epochs, seed=args.seed,
        folder=place(args, name) if name else None, resume=True, metric=Confusion(classes),
        monitor=monitor, maximize=True, progress=False, **settings,
    )  # fmt: skip


def choose_lr(name, loss, tried, args):
    """The learning rate with the least loss, by trials that are kept beside the results."""
    return grid_search(loss, {"lr": tried}, log=place(args, f"lr {name}", ".csv")).best["lr"]


def shown(name, column):
    """What to print of each epoch."""
    return lambda row: print(
        f"{name}: {row['steps']} steps, {row['seconds']:.0f} s, loss {row['train_loss']:.4f}, "
        f"validation {column} {row[column]:.4f}",
        flush=True,
    )


def first_at(rows, column, level):
    """The first row that reaches a level, or none."""
    return next((row for row in rows if row[column] >= level), None)


@torch.no_grad()
def operations(model, call):
    """Millions of multiplications in the filters of a call, those with absent neighbors included.

    Args:
        call: Calls the model.
    """
    total = []

    def spatial(layer, inputs, out):
        total.append(out.numel() * layer.weight[0].numel())

    def on_lattice(layer, inputs, out):
        values, lattice = inputs[0], inputs[-1]
        vertices = lattice.num_vertices if isinstance(layer, LatticeConv) else None
        if vertices is None:  # a stem builds its own: as many vertices as its input and grid touch
            vertices = _stem_vertices(inputs)
        taps = num_taps(layer.dim, layer.radius, layer.stencil)
        total.append(vertices * taps * values.shape[1] * layer.out_channels)

    kinds = {torch.nn.Conv2d: spatial, torch.nn.Linear: spatial, Linear: spatial}
    kinds |= {LatticeConv: on_lattice, BilateralConv: on_lattice}
    hooks = [m.register_forward_hook(kinds[type(m)]) for m in model.modules() if type(m) in kinds]
    was_training = model.training
    call(model.eval())
    model.train(was_training)
    for hook in hooks:
        hook.remove()
    return sum(total) / 1e6


def _stem_vertices(inputs):
    from permutogeo import Lattice

    _, (source, target), (source_batch, target_batch) = inputs
    return Lattice.build_bipartite(source, target, source_batch, target_batch)[0].num_vertices


def print_table(title, rows):
    """A table with a name for each row, and columns by name."""
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    texts = {name: [text(row.get(column, "")) for column in columns] for name, row in rows.items()}
    widths = [max(len(c), *(len(t[i]) for t in texts.values())) for i, c in enumerate(columns)]
    first = max(len(name) for name in rows)
    print(f"\n{title}")
    for name, cells in {"": columns, **texts}.items():
        line = "  ".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=True))
        print(f"{name:{first}}  {line}", flush=True)


def text(value):
    """A value as it stands in a table; none was not reached."""
    if value is None:
        return "not reached"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def draw_curves(path, curves, x, y, level=None, log=False, styles=None):
    """Draw several curves into one picture.

    Args:
        curves: Names, and a list of points each.
        x: What the horizontal axis says.
        y: What the vertical axis says.
        level: A value to mark.
        log: Whether the vertical axis is logarithmic.
        styles: How to draw a curve, by its name, where colors alone do not tell them apart.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.0), layout="constrained")
    axes = figure.subplots()
    for name, points in curves.items():
        style = (styles or {}).get(name, {})
        axes.plot(*zip(*points, strict=True), marker=".", label=name, **style)
    if level is not None:
        axes.axhline(level, color="gray", linestyle=":")
    axes.set(xlabel=x, ylabel=y, yscale="log" if log else "linear")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", handlelength=3)
    figure.savefig(path, dpi=120)


def record(args, title, tables, runs, pictures=None, curves=None):
    """Print the tables, and leave them with all that was measured in the output folder.

    Args:
        tables: Titles, and the rows of each by name.
        runs: What else was measured.
        pictures: Captions and files, for the page.
        curves: Likewise.
    """
    for name, rows in tables.items():
        print_table(name, rows)
    command = shlex.join(["python", f"examples/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    settings = {name: str(value) for name, value in vars(args).items()}
    told = {
        "command": command,
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "settings": settings,
        "tables": tables,
        **runs,
    }
    (args.output / "results.json").write_text(json.dumps(told, indent=2) + "\n")
    lines = [
        {"table": head, "name": name, **row}
        for head, rows in tables.items()
        for name, row in rows.items()
    ]
    write_csv(lines, args.output / "results.csv")
    shown = {
        head: {name: {c: text(v) for c, v in row.items()} for name, row in rows.items()}
        for head, rows in tables.items()
    }
    experiment_page(
        args.output / "page.html", title=title, command=command, tables=shown,
        pictures=pictures, curves=curves, settings=settings,
    )  # fmt: skip


class SpatialTwin(torch.nn.Module):
    """A network with a spatial first layer, on the grid that its input is interpolated to.

    Args:
        network: A :class:`~permutogeo.models.BNNLeNet` or a
            :class:`~permutogeo.models.BNNDeepCNet`, whose other layers it has.
        kernel: Side of the first layer's filters.
        side: Points along each axis of the grid; features are positions on it.
    """

    def __init__(self, network, kernel, side):
        super().__init__()
        conv = network.first.conv
        self.side = side
        self.first = torch.nn.Conv2d(conv.in_channels, conv.out_channels, kernel)
        torch.nn.init.kaiming_normal_(self.first.weight, nonlinearity="relu")
        torch.nn.init.zeros_(self.first.bias)
        self.rest = network.rest

    def forward(self, x, feature, batch=None):
        batch = torch.zeros(len(x), dtype=torch.long) if batch is None else batch
        grid = self.interpolate(x, feature, batch)
        # Channels last, as the bilateral layer gives its result: it takes half the time.
        return self.rest(self.first(grid.to(memory_format=torch.channels_last)))

    def interpolate(self, x, feature, batch):
        """The mean of the points around each pixel, by their bilinear weights; far from all, 0."""
        count = int(batch.max()) + 1
        low = feature.floor().clamp(0, self.side - 2).long()
        part = feature - low
        sums = x.new_zeros(count * self.side**2, 2)
        for right in (0, 1):
            for down in (0, 1):
                column, row = low[:, 0] + right, low[:, 1] + down
                weight = (1 - right - part[:, 0]).abs() * (1 - down - part[:, 1]).abs()
                index = (batch * self.side + row) * self.side + column
                sums.index_add_(0, index, torch.stack([weight * x[:, 0], weight], 1))
        grid = sums[:, 0] / torch.where(sums[:, 1] > 0, sums[:, 1], 1.0)
        return grid.view(count, 1, self.side, self.side)
