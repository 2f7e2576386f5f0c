"""Train the shipped networks that label scans of streets and rooms
================================================================

Trains a LatticeUNet on generated scenes for the given seconds of one core: batches of two scenes,
turned about the vertical, thinned and jittered. Prints the intersection over union of each class on
test scenes, and writes ``SCENES.safetensors``, for ``LatticeUNet.from_pretrained``, and
``SCENES.json``.

::

    python examples/train_scenes.py
    python examples/train_scenes.py --scenes rooms
"""

import argparse
import json
import time
from pathlib import Path

import torch
from torch.nn import functional
from torch_geometric.data import Batch
from torch_geometric.transforms import Compose

from permutogeo.datasets import RoomScenes, StreetScenes
from permutogeo.models import LatticeUNet
from permutogeo.train import confusion
from permutogeo.transforms import RandomJitter, RandomRotation, RandomSubsample

SCENES = {"streets": StreetScenes, "rooms": RoomScenes}
RATE = 0.004


def train(model, scenes, augment, seconds, most_steps=None):
    """Train for the given processor time; return the number of steps."""
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    generator = torch.Generator().manual_seed(0)
    start, steps = time.process_time(), 0
    while steps != most_steps:
        done = (time.process_time() - start) / seconds
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, 20 * done + 0.01) * (1.02 - done)
        chosen = torch.randint(len(scenes), (2,), generator=generator).tolist()
        keep = RandomSubsample(fraction=float(torch.empty(1).uniform_(0.4, 1.0)))
        batch = Batch.from_data_list([augment(keep(scenes[i])) for i in chosen])
        loss = functional.cross_entropy(model(batch.x, batch.pos, batch.batch), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
    return steps


@torch.no_grad()
def evaluate(model, scenes):
    """Return the intersection over union of each class."""
    model.eval()
    both = torch.zeros(scenes.num_classes, scenes.num_classes)
    for scene in scenes:
        both += confusion(model(scene.x, scene.pos).argmax(1), scene.y, scenes.num_classes)
    right = both.diagonal()
    return right / (both.sum(0) + both.sum(1) - right).clamp(min=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenes", choices=list(SCENES), default="streets")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--output", type=Path, default=Path("runs/train_scenes"))
    parser.add_argument("--quick", action="store_true", help="few points, two steps")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    make, points = SCENES[args.scenes], 600 if args.quick else 20_000
    counts = (2, 1) if args.quick else (60, 20)
    learn = make(counts[0], "train", points)
    test = make(counts[1], "test", points)
    model = LatticeUNet.from_data(learn, 16)
    augment = Compose([RandomRotation(axis=2), RandomJitter(0.2 * learn.noise)])
    steps = train(model, learn, augment, args.seconds, 2 if args.quick else None)
    found = evaluate(model, test)
    for name, each in zip(test.classes, found.tolist(), strict=True):
        print(f"{name:10} {each:.3f}")
    print(f"mean IoU {found.mean():.3f} on {len(test)} test scenes after {steps} steps")
    args.output.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(args.output / f"{args.scenes}.safetensors")
    record = {"steps": steps, "iou": dict(zip(test.classes, found.tolist(), strict=True))}
    (args.output / f"{args.scenes}.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = "figures/gallery/train_scenes.png"
