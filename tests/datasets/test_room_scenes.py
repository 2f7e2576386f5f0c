import torch

from permutogeo.datasets import RoomScenes


def test_rooms():
    rooms = RoomScenes(4, num_points=6000)
    labels = torch.cat([room.y for room in rooms])
    assert (torch.bincount(labels, minlength=8) > 20).all()
    for room in rooms:
        place = {name: room.pos[room.y == i] for i, name in enumerate(rooms.classes)}
        assert place["floor"][:, 2].max() < 0.1 < 2 < place["ceiling"][:, 2].min()
        # Furniture stands inside the walls.
        inner = torch.cat([place["table"], place["shelf"], place["sofa"], place["lamp"]])
        wide = place["wall"][:, :2].norm(dim=1).max()
        assert inner[:, :2].norm(dim=1).max() < wide
        assert inner[:, 2].min() > -0.05 and inner[:, 2].max() < place["ceiling"][:, 2].max()


def test_rooms_follow_seed_split_and_index():
    first = RoomScenes(2, num_points=200)[1].pos
    assert torch.equal(RoomScenes(5, num_points=200)[1].pos, first)
    others = [RoomScenes(2, "val", 200)[1], RoomScenes(2, num_points=200, seed=1)[1]]
    assert all(not torch.equal(other.pos, first) for other in others)
