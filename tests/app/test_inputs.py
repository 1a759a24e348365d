"""What is chosen follows the state."""

from amci_explorer.state.state import State
from amci_explorer.views.bound import bound


def test_a_list_is_told_its_value_again_when_the_labels_change():
    state = State()
    state.open("gain-loss")
    widget = bound(state, "layer", "Shows", listed=True)
    before, told = dict(widget.options), []
    widget.param.watch(lambda event: told.append(event.new), "value", onlychanged=False)
    state.open("tail-5d")
    assert dict(widget.options) != before
    # What the page has is the label of the value, which may not be listed any more.
    assert told
    assert told[-1] == widget.value == state.layer
