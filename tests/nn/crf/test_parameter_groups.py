import pytest
import torch

from permutogeo.nn import CRFLoss, DenseCRF, GaussianKernel, LearnedKernel, parameter_groups


class Segmenter(torch.nn.Module):
    """A point-wise network with a CRF on its logits."""

    def __init__(self):
        super().__init__()
        kernels = [GaussianKernel(2, learn_sigma=True, learn_weight=True), LearnedKernel(2)]
        self.net = torch.nn.Linear(2, 3)
        self.crf = DenseCRF(3, kernels, "full", 2, learn_compatibility=True)

    def forward(self, x):
        return self.crf(self.net(x), [x, x])


def test_groups_split_the_parameters():
    model = Segmenter()
    net, crf = parameter_groups(model, 0.001, 0.05)
    assert {id(p) for p in net["params"]} == {id(p) for p in model.net.parameters()}
    assert {id(p) for p in crf["params"]} == {id(p) for p in model.crf.parameters()}
    assert len(crf["params"]) == len(list(model.crf.parameters())) > 4
    assert (net["lr"], crf["lr"], crf["weight_decay"]) == (0.001, 0.05, 0.0)


def test_groups_without_parameters_are_left_out():
    only_crf = parameter_groups(Segmenter().crf, 0.001)
    assert [group["lr"] for group in only_crf] == [0.01]
    only_net = parameter_groups(torch.nn.Linear(2, 3), 0.001)
    assert [group["lr"] for group in only_net] == [0.001]
    loss = CRFLoss([GaussianKernel(2, learn_weight=True)])
    assert [len(group["params"]) for group in parameter_groups(loss, 0.1)] == [1]


def test_a_crf_moves_faster_at_its_own_rate():
    moved = []
    for factor in (1, 20):
        torch.manual_seed(0)
        model = Segmenter()
        start = [p.detach().clone() for p in model.crf.parameters()]
        optimizer = torch.optim.AdamW(parameter_groups(model, 0.001, 0.001 * factor))
        x = torch.rand(60, 2) * 3
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.nll_loss(model(x), (x[:, 0] > 1.5).long()).backward()
            optimizer.step()
        pairs = zip(start, model.crf.parameters(), strict=True)
        moved.append(max(float((p.detach() - first).abs().max()) for first, p in pairs))
    assert moved[1] > 10 * moved[0] > 0


def test_errors():
    with pytest.raises(ValueError, match=r"Expected 'crf_lr' of 0 or more \(got -1\)"):
        parameter_groups(Segmenter(), 0.1, -1)
