"""Draws that a visitor brings go through the server's limits, and what they say is shown."""

import csv

import numpy as np
import pytest
from amci_explorer.server.messages import LONGEST_MESSAGE
from amci_explorer.text import number
from playwright.sync_api import expect
from scipy.stats import norm

import amci_core as amci
from amci_core.tabular import read_columns

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-two")]


def write(path, n):
    """Draws of two components for P(x > 2) under N(0, 1)."""
    rng = np.random.default_rng(0)
    x = np.concatenate([2 + rng.exponential(0.4, n), 1.1 * rng.standard_normal(n)])
    with np.errstate(invalid="ignore"):
        log_q1 = np.where(x > 2, np.log(2.5) - (x - 2) / 0.4, -np.inf)
    columns = {
        "component": np.repeat(["q1_plus", "q2"], n),
        "f": (x > 2).astype(float),
        "log_joint": norm.logpdf(x),
        "log_q_q1_plus": log_q1,
        "log_q_q2": norm.logpdf(x, 0, 1.1),
    }
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(columns)
        lines.writerows(zip(*columns.values(), strict=True))
    return path


def test_a_file_longer_than_a_message_is_diagnosed(visit, tmp_path):
    path = write(tmp_path / "mine.csv", 20_000)
    assert path.stat().st_size > 2 * LONGEST_MESSAGE
    opened = visit("?runs=4&draws=8&card=table")
    page = opened.page
    page.get_by_role("button", name="Choose a file").wait_for(state="visible")
    page.locator("input[type=file]").set_input_files(path)
    opened.wait_for_text("mine.csv: 20,000 of q1_plus, 20,000 of q2 draws.")
    expected = amci.estimate_from_draws(read_columns(path))
    verdict = page.get_by_role("status").filter(has_text="AMCI + control variates: Reliable")
    expect(verdict).to_have_count(1)
    opened.wait_for_text(number(float(expected.value), 6))
    table = opened.take_table("Bring your draws")
    values = {each["estimator"]: float(each["value"]) for each in table}
    for name, e in expected.estimates.items():
        assert values[name] == pytest.approx(float(e.value), rel=1e-9)
    # What is wrong with the next file is said; what was there stays.
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("log_joint,log_q,f\n-1,many,1\n-1,-1,1\n")
    page.locator("input[type=file]").set_input_files(wrong)
    opened.wait_for_text("log_q: expected numbers: could not convert string to float: 'many'")
    opened.wait_for_text("mine.csv: 20,000 of q1_plus, 20,000 of q2 draws.")
    with page.expect_download() as download:
        page.get_by_role("button", name="Example CSV").click()
    assert amci.estimate_from_draws(read_columns(download.value.path().read_bytes(), name="s.csv"))
