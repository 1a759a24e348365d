"""Widgets follow the case, and change it by the user's hand alone."""

from amci_explorer.problems.presets import presets
from amci_explorer.state.case import Case
from amci_explorer.views.bound import bound
from amci_explorer.views.controls import Controls


def opened():
    """A case and its controls."""
    case = Case()
    controls = Controls(case, about=None, downloads=[])
    controls.open()
    return case, controls


def test_a_list_is_told_its_value_again_when_the_labels_change():
    case = Case()
    case.open("gain-loss")
    widget = bound(case, "layer", "Shows", listed=True)
    before, told = dict(widget.options), []
    widget.param.watch(lambda event: told.append(event.new), "value", onlychanged=False)
    case.open("tail-5d")
    assert dict(widget.options) != before
    # What the page has is the label of the value, which may not be listed any more.
    assert told
    assert told[-1] == widget.value == case.layer


def test_a_number_is_taken_if_it_is_in_bounds_and_follows_a_step_back():
    case, controls = opened()
    field = controls.counts["runs"]
    assert (field.label, field.value) == ("Runs", "1000")
    field.value = "7"
    assert case.runs == 7
    for wrong in ("99999", "x"):
        field.value = wrong
        assert case.runs == 7
        assert field.error_state
    case.go(-1)
    assert (case.runs, field.value, field.error_state) == (1000, "1000", False)


def test_the_chip_of_the_present_preset_is_pressed():
    case, controls = opened()
    chips = controls.chips
    assert chips.value == [0]
    # A page sends what is pressed, the one before as well.
    chips.value = [0, 1]
    assert (case.y, case.theta, chips.value) == ((3.0,), (0.1,), [1])
    chips.value = []
    assert chips.value == [1]
    case.move(y=2.0)
    case.commit()
    assert chips.value == []
    case.open("cancer")
    controls.open()
    assert list(chips.options) == [each.name for each in presets(case.problem)]


def test_the_training_history_goes_through_the_saved_checkpoints():
    case, controls = opened()
    player = controls._training
    values = list(player.options.values())
    assert values == [*range(len(values) - 1), None]
    assert player.value is None
    player.value = 0
    assert (case.snapshot, case.settings.snapshot, case.can_go) == (0, 0, (True, False))
    case.set(variant="paper")
    assert case.settings.snapshot is None
    case.go(-1)
    assert player.value is None
