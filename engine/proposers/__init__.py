"""Where candidates come from: search, people and, through one interface, agents."""
