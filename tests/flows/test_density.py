"""Sets of proposals: densities of all of them at the points of each, every one evaluated once."""

import copy

import pytest
import torch

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.flows.autoregressive import SplineDensity
from amci_core.flows.proposals import draw_all


def at(name, n=3):
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    return proposals, problem.check(*problem.cases(n, seed=1))


def generators(counts):
    return {j: torch.Generator().manual_seed(7 + j) for j in counts}


@pytest.mark.parametrize("name", ["tail-1d", "tail-5d", "cancer", "gain-loss"])
def test_all_points_get_the_density_of_every_proposal(name):
    proposals, cases = at(name)
    with torch.inference_mode():
        densities = proposals.at(*cases)
        counts = {j: 40 + j for j in densities}
        x, log_q = draw_all(densities, counts, generators(counts))
        for j, n in counts.items():
            alone, log_alone = proposals.as_tuple[j](*cases).draw(n, generators(counts)[j])
            torch.testing.assert_close(x[j], alone, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(log_q[j][j], log_alone, rtol=1e-10, atol=1e-10)
            for k, proposal in enumerate(proposals.as_tuple):
                if proposal is not None:
                    log_prob = proposal(*cases).log_prob(x[j])
                    torch.testing.assert_close(log_q[k][j], log_prob, rtol=1e-7, atol=1e-7)


def test_a_component_that_is_q2_is_evaluated_once(monkeypatch):
    proposals, cases = at("cancer", n=1)
    assert proposals.q1_plus.component is proposals.q2
    rows = {"transport": 0, "log_prob": 0}
    for method in rows:
        plain = getattr(SplineDensity, "_" + method)

        def counted(self, points, plain=plain, method=method):
            rows[method] += points.shape[-2]
            return plain(self, points)

        monkeypatch.setattr(SplineDensity, "_" + method, counted)
    n = 1000
    with torch.inference_mode():
        densities = proposals.at(*cases)
        draw_all(densities, {0: n, 2: n}, generators([0, 2]))
    # Own spline and q2 each give n points and see the other's n; beyond that, only the few that
    # the mixture takes from q2.
    assert 2 * n <= rows["transport"] < 2.2 * n
    assert 2 * n <= rows["log_prob"] < 2.2 * n


def test_a_component_that_differs_from_q2_stays_what_it_is():
    proposals, _ = at("cancer")
    q1, q2 = copy.deepcopy((proposals.q1_plus, proposals.q2))
    q1.defence = copy.deepcopy(q1.defence)
    with torch.no_grad():
        q2.networks[0].linear[0].bias[0] += 1e-6
    mine = Proposals("cancer", "mine", q1, None, q2)
    assert mine.q1_plus.component is not mine.q2


def test_nan_in_loaded_weights_stops_an_estimate():
    for name in ("tail-1d", "tail-5d", "cancer"):
        loaded = amci.load_proposals(name)
        q1 = copy.deepcopy(loaded.q1_plus)
        with torch.no_grad():
            list(q1.parameters())[-1].view(-1)[0] = torch.nan
        spoilt = Proposals(name, "spoilt", q1, None, loaded.q2)
        case = [v[0] for v in amci.problem(name).cases(1, seed=0) if v is not None]
        with pytest.raises(ValueError, match=r"^proposal: the parameters .*network.* are NaN"):
            amci.estimate(amci.problem(name), spoilt, *case)
