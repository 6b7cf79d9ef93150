"""Panes of the screens. Each draws what it is given and knows neither ledger nor engine."""
