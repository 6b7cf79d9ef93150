"""The three places, Labs, Live and Experiment, and the dialogs that open over them."""
