"""Sets of proposals: densities of all of them at the points of each."""

import copy

import pytest
import torch

import amci_core as amci
from amci_core.estimators.draws import COMPONENTS
from amci_core.flows import Proposals
from amci_core.flows.families import FAMILIES, forms
from amci_core.flows.proposals import draw_all


def generators(counts):
    return {j: torch.Generator().manual_seed(7 + j) for j in counts}


@pytest.mark.parametrize("name", ["tail-5d", "cancer", "gain-loss"])
def test_all_points_get_the_density_of_every_proposal(name):
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    cases = problem.check(*problem.cases(3, seed=1))
    with torch.inference_mode():
        densities = proposals.at(*cases)
        made = {COMPONENTS.index(name): q for name, q in proposals.by_name.items()}
        counts = {j: 40 + j for j in densities}
        x, log_q = draw_all(densities, counts, generators(counts))
        for j, n in counts.items():
            alone, log_alone = made[j](*cases).draw(n, generators(counts)[j])
            torch.testing.assert_close(x[j], alone, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(log_q[j][j], log_alone, rtol=1e-10, atol=1e-10)
            for k in counts:
                log_prob = made[k](*cases).log_prob(x[j])
                torch.testing.assert_close(log_q[k][j], log_prob, rtol=1e-7, atol=1e-7)


def test_nan_in_weights_stops_an_estimate():
    loaded = amci.load_proposals("cancer")
    q1 = copy.deepcopy(loaded.q1_plus).train()
    with torch.no_grad():
        list(q1.parameters())[-1].view(-1)[0] = torch.nan
    spoilt = Proposals("cancer", "spoilt", q1, None, loaded.q2)
    with pytest.raises(ValueError, match=r"^q1_plus: its log density is NaN"):
        amci.estimate("cancer", spoilt, y=(600.0, 250.0))


@pytest.mark.parametrize("name", amci.problems())
@pytest.mark.parametrize("reads_theta", [True, False])
def test_every_form_that_fits_a_problem_can_be_drawn_from(name, reads_theta):
    problem = amci.problem(name)
    y, theta = problem.check(*problem.cases(2, seed=0))
    for entry in forms(problem, reads_theta=reads_theta, bins=4, width=8).values():
        flow = FAMILIES[entry["family"]](problem, **entry["arguments"]).double()
        assert flow(y, theta).draw(3)[0].shape == (2, 3, problem.x.dim)


def test_a_set_of_proposals_is_shown_in_a_few_lines():
    assert repr(amci.load_proposals("tail-1d")) == (
        "Proposals for tail-1d, variant spline\n"
        "  q1_plus: autoregressive-spline, 14,882 weights\n"
        "  q2: gaussian, 4 weights\n"
        "  q1_complement: autoregressive-spline, 14,947 weights"
    )
