"""Expressions as f: what they mean, and that nothing else gets through."""

import math
import pickle
import random
import warnings

import pytest
import torch

from amci_core.models.expression import LONGEST, Expression, ExpressionError

X = torch.tensor([[0.3, -1.2, 2.0], [1.7, 0.4, -0.5], [-2.0, 3.0, 0.0]]).double()
THETA = torch.tensor([[0.5, 1.0]]).double()
A, B, C = X.T
S, T = THETA.T
# What each expression is, in torch.
MEANS = {
    "x[0] > theta[0]": A > S,
    "  x₁>θ1 ": A > S,
    "x1 × x2 − 1": A * B - 1,
    "0.1 < x1 < 0.5 or not x2 > 0": (A > 0.1) & (A < 0.5) | (B <= 0),
    "x1 >= 1.7 and x2 <= 0.4": (A >= 1.7) & (B <= 0.4),
    "x1 + x2 * 2 - x3 / 4": A + 2 * B - C / 4,
    "x1**2 + x2**-2": A**2 + B**-2,
    "-x1**3": -(A**3),
    "(x1 - x2) * (x1 - x2)": (A - B) ** 2,
    "exp(-abs(x1)) * cos(x2)": (-A.abs()).exp() * B.cos(),
    "sqrt(abs(x1)) + tanh(x2) + sin(x3)": A.abs().sqrt() + B.tanh() + C.sin(),
    "log(1 + x1**2)": (1 + A**2).log(),
    "max(x1 - theta1, 0)": (A - S).clamp(min=0),
    "min(x1, x2, 0.1)": torch.minimum(A, B).clamp(max=0.1),
    "max(x)": X.amax(-1),
    "sum(x**2) + norm(x)": X.square().sum(-1) + X.norm(dim=-1),
    "mean(abs(x) * x1)": (X.abs() * A[:, None]).mean(-1),
    "all(x > -1.5)": (X > -1.5).all(-1),
    "any(x > theta1 + 1)": (X > S + 1).any(-1),
    "x1 if x2 > 0 else -x3": torch.where(B > 0, A, -C),
    "where(x1 > 0, 1, x2**2)": torch.where(A > 0, 1.0, B**2),
    "sum(x > 0)": (X > 0).double().sum(-1),
    "theta1 + theta[1]": (S + T).expand(3),
    "1" + "+1" * 60: torch.full((3,), 61.0),
    "+1e-3 - 2": torch.full((3,), -1.999),
}


@pytest.mark.parametrize("text", MEANS)
def test_it_means_what_it_says(text):
    expected = MEANS[text]
    f = Expression(text, dim=3, theta_dim=2)
    found = f(X, THETA)
    torch.testing.assert_close(found, expected.to(torch.float64))
    assert f(X.float(), THETA.float()).dtype == torch.float32
    assert torch.equal(pickle.loads(pickle.dumps(f))(X, THETA), found)


def test_points_and_cases_broadcast():
    f = Expression("x1 > theta2", dim=3, theta_dim=2)
    theta = torch.stack([THETA, -THETA])  # two cases
    assert f(X.expand(2, 3, 3), theta).shape == (2, 3)
    assert Expression("theta1", dim=3, theta_dim=2)(X.expand(2, 3, 3), theta).shape == (2, 3)
    assert Expression("1", dim=3, theta_dim=0)(X, None).shape == (3,)


WRONG = {
    "": (1, "it ends too early"),
    "(x1 > 0": (1, "'(' was never closed"),
    "x1 x2": (4, "unexpected 'x'"),
    "  x1 + y": (8, "f does not depend on y"),
    "θ1 + z": (6, "unknown z. Use x1 to x3, theta1 to theta2"),
    "x4": (1, "unknown x4. Use x1 to x3"),
    "x[-1]": (1, "not allowed here"),
    "x > 0": (1, "expected one number, got 3 coordinates"),
    "sum(x * theta)": (5, "2 and 3 coordinates cannot be combined"),
    "x1 ^ 2": (1, "Write a power with **"),
    "x1 > 0 & x2": (6, "Join conditions with and"),
    "x1 = theta1": (4, "unexpected '='. Write a comparison with < or >"),
    "x1 == 1": (1, "== holds with probability 0"),
    "x1 % 2": (1, "not allowed here"),
    "x1**x2": (5, "exponent"),
    "2e9": (1, "up to 1e+09"),
    "x1 and x2 > 0": (1, "expected a condition"),
    "exp": (1, "unknown exp. Use x1"),
    "exp(x1, x2)": (1, "exp takes one argument"),
    "max()": (1, "max takes one number or more"),
    "where(x1 > 0, 1)": (1, "where takes three arguments"),
    "x[True]": (1, "not allowed here"),
    "eval('1')": (1, "unknown function"),
    "x1.__class__": (1, "not allowed here"),
    "x1, x2": (1, "not allowed here"),
    "x1\nimport os": (None, "unexpected"),
    "x" * (LONGEST + 1): (LONGEST + 1, "at most 200 characters"),
}


def test_names_that_a_single_coordinate_has_are_told():
    with pytest.raises(ExpressionError, match=r"unknown tehta\. Use x, x1, theta, theta1$"):
        Expression("x > tehta", dim=1, theta_dim=1)


@pytest.mark.parametrize("text", WRONG, ids=lambda text: ascii(text[:30]))
def test_a_mistake_is_told_with_its_place(text):
    column, why = WRONG[text]
    with pytest.raises(ExpressionError) as refused:
        Expression(text, dim=3, theta_dim=2)
    assert why in refused.value.why
    assert refused.value.column == column or column is None
    assert str(refused.value).startswith(f"f, column {refused.value.column}: ")
    assert len(str(refused.value)) < 300


PIECES = (
    "x x1 theta y θ __import__ os eval lambda exp( sum(x) max( where( ( ) [ ] { } , . : ; ' \" \\"
    " # @ ` $ ! + - * ** / // % < > <= == != ~ ^ | & := and or not if else for in is await yield 0"
    " 1e308 0x 1_0 1j 1if 0or é \0 \n \t \ud800 \u202e \U0001f600 ｘ１ 𝔵 .... f'{ ''' b'"
).split(" ")


def mistake_in(text):
    """The column of the mistake; None where there is none, and the expression has been used."""
    try:
        Expression(text, dim=2, theta_dim=1)(X[:, :2], THETA[:, :1])
    except ExpressionError as error:
        return error.column


def test_hostile_texts_give_errors_with_a_column():
    rng = random.Random(7)
    read = 0
    for _ in range(500):
        text = rng.choice(["", " "]).join(rng.choices(PIECES, k=rng.randrange(1, 60)))
        if rng.random() < 0.2:
            text = rng.choice(PIECES) * rng.randrange(1, 300)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            column = mistake_in(text)
        assert column is None or 1 <= column <= LONGEST + 1
        read += column is None
    assert 0 < read < 100


@pytest.mark.parametrize(
    ("text", "f_range"),
    [
        ("where(x1 > theta1, 1, 0)", (0, 1)),
        ("x1 > theta1 and not x2 > 0", (0, 1)),
        ("where(x1 > theta1, 2, 0)", (-math.inf, math.inf)),
        ("x1 * (x2 > 0)", (-math.inf, math.inf)),
    ],
)
def test_what_takes_zero_and_one_alone_is_known_to(text, f_range):
    f = Expression(text, dim=2, theta_dim=1)
    assert f.f_range == f_range
    values = set(f(X[:, :2], THETA[:, :1]).unique().tolist())
    assert (values <= {0, 1}) == (f_range == (0, 1))
