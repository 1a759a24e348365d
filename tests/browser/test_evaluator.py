"""What a page computes by itself is what amci_core and the dashboard compute."""

import os

import numpy as np
import pytest
import torch
from amci_explorer.js.scripts import FOLDER, bundle
from amci_explorer.numbers import Look
from amci_explorer.numbers.line import line_densities
from amci_explorer.numbers.weights import weights

import amci_core as amci

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

NAMES = ("tail-1d", "gain-loss")
DRAWS, WITHIN = 3, 1e-6
ENTRY = """
import {decoded, proposalAt} from "%(folder)s/proposals.mjs"
import {TARGETS, atMismatch, mismatchRange, truth} from "%(folder)s/targets.mjs"
import {lineColumns} from "%(folder)s/line.mjs"
globalThis.amci = {decoded, proposalAt, TARGETS, atMismatch, mismatchRange, truth, lineColumns}
"""
# At every case: draws out of uniform numbers, their log q, and log q at other points.
EVALUATE = """([stored, ys, thetas, us, xs]) => {
    const q = amci.decoded(stored), finite = v => (v > -1e300 ? v : -1e300)
    return ys.map((y, i) => {
        const at = amci.proposalAt(q, y, thetas[i]), drawn = us[i].map(u => at.draw(u))
        return [
            drawn.map(([x]) => x), drawn.map(([, log]) => log),
            drawn.map(([x]) => at.logProb(x)), xs[i].map(x => finite(at.logProb(x))),
        ]
    })
}"""
KNOWN = """([name, ys, thetas]) => {
    const target = amci.TARGETS[name]
    return ys.map((y, i) => [
        amci.truth(target, y, thetas[i]), target.mismatch(y, thetas[i]),
        target.deviation(y, thetas[i]), ...target.logParts(y, thetas[i]),
    ])
}"""
CASES = 150


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """An empty page with the evaluator in it."""
    entry = tmp_path_factory.mktemp("entry") / "entry.mjs"
    entry.write_text(ENTRY % {"folder": os.path.relpath(FOLDER, entry.parent)})
    opened = browser.new_page()
    opened.add_script_tag(content=bundle(entry))
    yield opened
    opened.close()


def cases(problem, n, seed=1):
    """y and theta, drawn evenly from the ranges that the page shows."""
    generator = torch.Generator().manual_seed(seed)

    def draw(variable):
        low, high = variable.typical_range
        u = torch.rand(n, variable.dim, dtype=torch.float64, generator=generator)
        return low + (high - low) * u

    return draw(problem.y), draw(problem.theta)


@pytest.mark.parametrize("name", NAMES)
def test_proposals_are_those_of_the_core_at_random_cases(page, name):
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    y, theta = cases(problem, CASES)
    generator, size = torch.Generator().manual_seed(2), (CASES, DRAWS)
    stored = weights(proposals)
    assert len(stored) == len(proposals.present)
    for kind, j in zip(stored, proposals.present, strict=True):
        u = 1 - torch.rand(size, dtype=torch.float64, generator=generator)
        x = 0.5 + 2 * torch.randn(size, dtype=torch.float64, generator=generator)
        with torch.inference_mode():
            q = proposals.at(y, theta)[j]
            drawn, log_q = q.forward(q.from_uniform(u.reshape(-1, 1)))
            elsewhere = q.log_prob(x[..., None]).clamp(-1e300)
            expected = [drawn.flatten(1), log_q, q.log_prob(drawn), elsewhere]
        arguments = [stored[kind], *(v.tolist() for v in (y, theta, u, x))]
        found = page.evaluate(EVALUATE, arguments)
        for each, wanted in zip(zip(*found, strict=True), expected, strict=True):
            np.testing.assert_allclose(each, wanted, rtol=WITHIN, atol=WITHIN)


@pytest.mark.parametrize("name", NAMES)
def test_targets_are_those_of_the_core_at_random_cases(page, name):
    problem = amci.problem(name)
    y, theta = cases(problem, CASES)
    found = np.array(page.evaluate(KNOWN, [name, y.tolist(), theta.tolist()])).T
    terms = problem.log_terms(y, theta)
    log_E2 = terms.pop("E2")
    known = [problem.truth, problem.mismatch, problem.mean_absolute_deviation]
    expected = [of(y, theta) for of in known] + [log - log_E2 for log in terms.values()]
    for each, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(each, wanted, rtol=WITHIN, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_mismatch_handle_leads_where_the_core_leads(page, name):
    problem = amci.problem(name)
    for i, (y, theta) in enumerate(zip(*cases(problem, 20), strict=True)):
        low, high = problem.mismatch_range(y, theta)
        # From below the path's ends to beyond them.
        level = max(0.0, low + (high - low) * (i / 15 - 0.1))
        found = page.evaluate(
            """([name, level, y, theta]) => [
                amci.mismatchRange(amci.TARGETS[name], y, theta),
                amci.atMismatch(amci.TARGETS[name], level, y, theta),
            ]""",
            [name, level, y.tolist(), theta.tolist()],
        )
        _, there = problem.at_mismatch(level, y, theta)
        np.testing.assert_allclose(found[0], (low, high), rtol=WITHIN, atol=1e-9)
        np.testing.assert_allclose(found[1], there, rtol=WITHIN, atol=WITHIN)


@pytest.mark.parametrize("name", NAMES)
def test_columns_are_those_of_the_dashboard(page, name):
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    for y, theta in zip(*cases(problem, 5, seed=3), strict=True):
        with torch.inference_mode():
            expected = line_densities(problem, proposals, y, theta, Look(("x",))).columns
        found = page.evaluate(
            """([stored, name, y, theta, x]) => {
                const q = Object.fromEntries(
                    Object.entries(stored).map(([key, each]) => [key, amci.decoded(each)]))
                const columns = Object.entries(amci.lineColumns(q, name, y, theta, x))
                return Object.fromEntries(columns.map(([key, values]) => [key, [...values]]))
            }""",
            [weights(proposals), name, y.tolist(), theta.tolist(), expected["x"].tolist()],
        )
        assert found.keys() == expected.keys()
        for column, values in expected.items():
            np.testing.assert_allclose(
                found[column], values, rtol=WITHIN, atol=1e-9, err_msg=column
            )
